"""What only level `pedantic` asks for."""

import re
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from ptx_launch import launch
from test_pairs import PROGRAMS

from emulator.errors import DataRace, Level

STAGED = (Path(__file__).parent / "pairs/staged.ptx").read_text()
Mode = Literal["eager", "lazy", "random"]
MODES: tuple[Mode, ...] = ("eager", "lazy", "random")
BEFORE, AFTER = "tcgen05.fence::before_thread_sync;", "tcgen05.fence::after_thread_sync;"


def fenced(without: str = "", near: str = "") -> str:
    """The staged product with a fence after each tcgen05.wait and before what uses tensor memory; all but one."""
    lines = []
    for line in STAGED.splitlines():
        spared = bool(near) and near in line
        if re.search(r"tcgen05\.(mma|ld|st)\.", line) and not (spared and without == AFTER):
            lines.append(AFTER)
        lines.append(line)
        if "tcgen05.wait" in line and not (spared and without == BEFORE):
            lines.append(BEFORE)
    return "\n".join(lines)


def run(text: str, completion: Mode = "lazy") -> None:
    program = PROGRAMS["staged"]
    out = np.zeros_like(program.expected)
    launch(text, (*program.inputs, out), block=(program.threads, 1, 1), completion=completion, level=Level.PEDANTIC)
    np.testing.assert_array_equal(out, program.expected)


@pytest.mark.parametrize("completion", MODES)
def test_all_fences(completion: Mode) -> None:
    run(fenced(), completion)


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize(
    ("without", "near", "missing"),
    [
        (AFTER, "@mma 1", r"missing .*tcgen05\.fence::after_thread_sync in warp 4"),
        (AFTER, "@load", r"missing .*tcgen05\.fence::after_thread_sync in warp \d"),
        (BEFORE, "@wait st", r"missing .*tcgen05\.fence::before_thread_sync in warp \d.* after its tcgen05\.wait::st"),
    ],
)
def test_a_fence_left_out(without: str, near: str, missing: str, completion: Mode) -> None:
    with pytest.raises(DataRace, match=missing):
        run(fenced(without, near), completion)
