"""The Hopper kernel against the float64 reference: cases of the milestones, judged on the emulated H200."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from emulator.bridge.patches import ORIGINAL_ENVIRONMENT
from harness.host.job import KERNELS
from tests.tiers import shortened

PROGRAM = Path(__file__).with_name("sm90_program.py")
ROOT = PROGRAM.parents[2]
EVERY_RUN = [("D1.2", "hd=64 n=580 splits=2 peak=128")]
LONG = [
    ("D6g", "hd=512 B=2 T=2 H=8 v41 20x64 table W=128 lens=300,1 + v41_fp4 5x69 top 133 empty=inf sink"),
    ("D6e", "hd=576 B=2 T=2 H=64 v32 4x61 top 133 gap=16 lens=0,133,5,64 empty=inf sink sms=2"),
]
#: Head dim 256 takes the path of 64.
THOROUGH = [
    ("D2", "hd=64 n=580 B=3 T=3 H=64 growing sms=2"),
    ("D6d", "hd=512 B=3 T=2 H=16 v4 20x64 table W=128 gap=128 lens=300,1,129 empty=inf maxima"),
    ("D1.4", "hd=512 n=256 H=70 scale=0.3"),
    ("D5c", "hd=64 n=170 B=4 T=2 H=64 V=K lens=150,3,0,0 W=128 top 150 sms=2"),
    ("D6e", "hd=576 B=3 H=64 bf16 4x64 top 133 gap=64 lens=133,0,5 maxima sink"),
    ("D2", "hd=256 n=321 B=3 T=3 H=64 growing sms=2"),
    ("D4", "hd=64 n=400 B=3 T=4 H=16 lens=300,128,2 W=128"),
    (
        "D6c",
        "hd=512 B=3 T=2 H=64 bf16 20x64 table W=128 lens=300,1,1073741824 held=5 + bf16 5x64 top 133 sink",
    ),
    (
        "D6f",
        "hd=512 B=2 T=2 v4 4x64 top 128 lens=128,0 + v4 150x2 top 290 gap=48 lens=290,0 empty=inf splits=8",
    ),
    ("D6e", "hd=576 B=2 T=2 H=64 bf16 6x192 table W=inf lens=500,70 splits=4 peak=32"),
    ("D6g", "hd=512 B=2 v41_page_scales 2x64 top 128 + v41_fp4_page_scales 3x64 top 133 maxima sms=2"),
]
INSTRUCTIONS, WITH_CACHES = 3_500, 6_000
"""PTX instructions of one configuration, without and with caches. Compile time follows them: 6 to 8 CPU seconds for
3,300 on a slow machine, 4.5 on a fast one. The report of a milestone plots the seconds."""
LAUNCH_REGISTERS = 168
"""Registers per thread of a launch of 384 threads; setmaxnreg divides them among the warpgroups."""

ALL_NEGATIVE = """
import emulator, torch
from kernel import fmha
from kernel.reference import branch

torch.manual_seed(0)
for head_dim in (64, 128):
    q, k = (torch.rand(1, n, head_dim).bfloat16() for n in (40, 300))
    q[:, ::2] *= -1  # even rows see positive logits alone, odd ones negative
    with emulator.emulate():
        found = fmha(q[:, :, None], -k, -k, partials=True)
    expected = branch(q[:, :, None], -k)
    for mine, right in ((found.m, expected.m), (found.lse, expected.lse)):
        torch.testing.assert_close(mine.double(), right.double(), atol=1e-5, rtol=1e-5)
"""


@pytest.mark.parametrize("cases", shortened(1, [EVERY_RUN, LONG, THOROUGH], in_ci=2), ids=["one", "more", "all"])
def test_pins_hold_and_code_is_short_and_spills_nothing(cases: list[tuple[str, str]], kernels: Path) -> None:
    """One process for all cases."""
    said = printed(str(PROGRAM), stdin=json.dumps(cases), **{KERNELS: str(kernels)})
    for case, line in zip(cases, said.splitlines(), strict=True):
        wrong, instructions, registers, stack_bytes, target = json.loads(line)
        assert not wrong, (case, wrong)
        assert target == "sm_90a" and registers <= LAUNCH_REGISTERS and stack_bytes == 0, case
        assert 0 < instructions <= (WITH_CACHES if case[0].startswith("D6") else INSTRUCTIONS), (case, instructions)


@pytest.mark.thorough
def test_maxima_of_rows_whose_logits_are_all_negative() -> None:
    """The integers of negative numbers are in the opposite order."""
    printed("-c", ALL_NEGATIVE)


def printed(*arguments: str, stdin: str = "", **variables: str) -> str:
    """Return what Python prints with an emulated H200."""
    environment = ORIGINAL_ENVIRONMENT | {"CUTE_DSL_ARCH": "sm_90a", "PYTHONPATH": str(ROOT)} | variables
    done = subprocess.run(
        [sys.executable, *arguments], input=stdin, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
