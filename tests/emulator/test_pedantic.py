"""What only level `pedantic` asks for."""

import re
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from ptx_launch import kernel, launch
from test_pairs import PROGRAMS

from emulator.errors import DataRace, Level, MissingWait

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


SENT = """
    .reg .pred %p; .reg .b32 %r<3>; .reg .b64 %a; .shared .align 16 .b8 words[128];
    mov.u32 %r0, %tid.x; shl.b32 %r1, %r0, 2; mov.b32 %r2, words; add.s32 %r1, %r1, %r2; st.shared.b32 [%r1], %r0;
    fence.proxy.async.shared::cta; bar.warp.sync -1; elect.sync _|%p, -1; ld.param.b64 %a, [out];
    @%p cp.async.bulk.global.shared::cta.bulk_group [%a], [%r2], 128;
    @%p cp.async.bulk.commit_group; WAIT ret;
"""


@pytest.mark.parametrize("completion", MODES)
def test_a_copy_that_its_cta_does_not_wait_for(completion: Mode) -> None:
    for wait, level in (("@%p cp.async.bulk.wait_group.read 0;", Level.PEDANTIC), ("", Level.FORMAL)):
        out = np.zeros(32, np.uint32)
        text = kernel("k", ".param .u64 out", SENT.replace("WAIT", wait))
        launch(text, [out], completion=completion, level=level)
        assert out.tolist() == [*range(32)]
    with pytest.raises(MissingWait, match=r"a bulk store reads shared memory of CTA \(0,0,0\), which may have ended"):
        launch(
            kernel("k", ".param .u64 out", SENT.replace("WAIT", "")), [out], completion=completion, level=Level.PEDANTIC
        )
