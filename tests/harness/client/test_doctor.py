"""The requirements of a GPU host that this machine need not meet: its driver beside torch's CUDA."""

import json

import pytest

from harness.client.doctor import _gpu
from remote.ssh import Ssh

B200 = Ssh("b200", "b200", "/srv/fmha")


@pytest.mark.parametrize(
    ("driver", "runtime", "holds"),
    [
        ("580.95.05", {"nvidia-cuda-runtime": "13.0.96"}, True),
        ("570.133.20", {"nvidia-cuda-runtime": "13.0.96"}, False),
        ("570.133.20", {"nvidia-cuda-runtime-cu12": "12.8.90"}, True),
        ("470.57", {}, True),
    ],
)
def test_the_driver_is_as_new_as_the_CUDA_of_torch_needs(driver: str, runtime: dict[str, str], holds: bool) -> None:
    """The answer of nvidia-smi, and that of the probe about packages. Without CUDA libraries nothing is known."""
    packages = json.dumps(["3.12.3", {"torch": "2.13.0"} | runtime])
    *_, found = _gpu(B200, f"NVIDIA B200, {driver}, 10.0, 0 MiB, 183359 MiB", packages)
    assert (found.need, found.holds) == ("driver", holds)
    assert holds or "CUDA 13: ask for driver 580 or newer" in found.fix
