"""D1.3: P staged in shared memory as well as in tensor memory, hd 64 to 256. Both must give the same bits."""

from dataclasses import replace

import pytest

from stages.case import Case, PPath
from stages.device import Device
from stages.verify import launched, same_bits

HEAD_DIMS, KEYS = (64, 128, 256), (128, 200)
PATHS: tuple[PPath, ...] = ("tmem", "smem")
EVEN = tuple(
    Case("D1.3", head_dim, keys, p_path=path, scale=0.3 if (head_dim, keys) == (128, 200) else None)
    for head_dim in HEAD_DIMS
    for path in PATHS
    for keys in KEYS
)
CASES = (
    *EVEN,
    # More KV tiles than pipeline stages, with maxima that change at most of them.
    Case("D1.3", 64, 580, p_path="smem", peak=32),
    *(Case("D1.3", head_dim, 330, p_path=path, peak=32) for head_dim in (128, 256) for path in PATHS),
    *(Case("D1.3", head_dim, 330, p_path="tmem", peak=128) for head_dim in (128, 256)),
    *(Case("D1.3", head_dim, 330, p_path="tmem", trend="growing") for head_dim in (128, 256)),
    # A CTA pair.
    Case("D1.3", 256, 321, heads=144, p_path="smem", peak=32),
)
SEEDS = (1,)
#: Launched in addition to CASES.
TWINS = tuple(replace(case, p_path="tmem") for case in CASES if case.p_path == "smem")


@pytest.mark.parametrize("case", [case for case in CASES if case.p_path == "smem"], ids=str)
def test_p_paths_give_the_same_bits(case: Case, seed: int, device: Device) -> None:
    """The result does not depend on the memory that holds P."""
    smem, tmem = (launched(replace(case, p_path=path), seed, device) for path in PATHS)
    same_bits(smem, tmem, f"{case.milestone} {case.name} seed={seed}", "P in shared and in tensor memory")
