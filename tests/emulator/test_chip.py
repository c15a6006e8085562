"""The emulated chip: a B200, or the one that the environment selects before the emulator is imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ASKS = """
import os, torch
p = torch.cuda.get_device_properties(0)
print(p.name, p.major, p.minor, p.multi_processor_count, os.environ["CUTE_DSL_ARCH"])
"""
B200, H200 = "NVIDIA B200 (emulated) 10 0 148 sm_100a", "NVIDIA H200 (emulated) 9 0 132 sm_90a"
SMALL_B200 = B200.replace("148", "8")
B300 = "NVIDIA B300 (emulated) 10 3 148 sm_103a"
INTEGERS = """
import emulator
head = ".version 8.8\\n.target sm_103f\\n.address_size 64\\n.entry k() {{ .reg .pred %p; .reg .b64 %d; .reg .b32 %r;"
text = head + "{} ret; }}"
emulator.launch(text.format("@%p tcgen05.mma.cta_group::1.kind::i8 [%r], %d, %d, %r, %p;"))
"""


def run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if k not in ("CUTE_DSL_ARCH", "EMULATOR_DEVICE", "EMULATOR_SMS")}
    return subprocess.run(
        [sys.executable, *command], env=clean | variables, capture_output=True, text=True, check=False
    )


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "variables", "said"),
    [
        (["--device", "h200"], {}, H200),
        ([], {"EMULATOR_DEVICE": "b300"}, B300),
        ([], {"EMULATOR_SMS": "8"}, SMALL_B200),
        ([], {}, B200),
    ],
    ids=["by the option", "by the variable", "with fewer SMs", "a B200"],
)
def test_what_it_says_of_itself(options: list[str], variables: dict[str, str], said: str, tmp_path: Path) -> None:
    script = tmp_path / "asks.py"
    script.write_text(ASKS)
    done = run("-m", "emulator", "run", *options, str(script), **variables)
    assert done.stdout.strip() == said, done.stderr


def test_the_architecture_chooses_it() -> None:
    done = run("-c", "import emulator.chip as chip; print(chip.DEVICE.name)", CUTE_DSL_ARCH="sm_90a")
    assert done.stdout == "H200\n", done.stderr


def test_a_b300_has_no_integer_mma() -> None:
    done = run("-c", INTEGERS, EMULATOR_DEVICE="b300")
    assert "kind::i8, which sm_103a does not have" in done.stderr


CLUSTERS = "from emulator.host.properties import PROPERTIES as p; print(*[p.active_clusters(n) for n in (1, 2, 4, 16)])"


@pytest.mark.parametrize(("sms", "clusters"), [("148", "148 74 34 8"), ("20", "20 10 4 1")])
def test_clusters_of_a_device_with_fewer_sms(sms: str, clusters: str) -> None:
    """The first GPC has 18 SMs, so of 20 SMs two are in the second one."""
    done = run("-c", CLUSTERS, EMULATOR_SMS=sms)
    assert done.stdout.strip() == clusters, done.stderr


@pytest.mark.parametrize("sms", ["0", "149", "many"])
def test_another_number_of_sms_is_refused(sms: str) -> None:
    done = run("-c", "import emulator", EMULATOR_SMS=sms)
    assert f"ValueError: EMULATOR_SMS is {sms!r}; allowed: 1 to 148, the SMs of the b200" in done.stderr


def test_another_is_refused() -> None:
    done = run("-c", "import emulator", EMULATOR_DEVICE="h300")
    assert "ValueError: EMULATOR_DEVICE is 'h300'; allowed: b200, b300, gb300, h200, h100" in done.stderr
