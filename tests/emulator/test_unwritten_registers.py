"""Reads of registers and local memory that nothing can have written."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_launch import kernel, launch
from test_pairs import MODES

from emulator.errors import Fault, Level, UnwrittenRead

PROGRAM = """
.reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %a<3>;
ld.param.b64 %a0, [out]; mov.u32 %r0, %tid.x; mul.wide.u32 %a1, %r0, 4; add.s64 %a0, %a0, %a1;
ld.param.b32 %r1, [taken]; setp.ne.u32 %p0, %r1, 0;
BODY
ret;
"""


def run(body: str, taken: int = 1, completion: str = "lazy", level: Level = Level.FAULT) -> list[Fault]:
    findings: list[Fault] = []
    text = kernel("k", ".param .u64 out, .param .u32 taken", PROGRAM.replace("BODY", body))
    out = np.zeros(32, np.uint32)
    launch(text, [out, taken], completion=completion, level=level, findings=findings)  # type: ignore[arg-type]
    return findings


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize(
    "body",
    [
        "mov.b32 %r2, 5; st.global.b32 [%a0], %r2;",
        "@%p0 mov.b32 %r2, 5; @%p0 st.global.b32 [%a0], %r2;",
        "@!%p0 bra A; mov.b32 %r2, 5; A: @!%p0 bra B; st.global.b32 [%a0], %r2; B:",
        "mov.b32 %r3, 0; A: setp.eq.u32 %p1, %r3, 0; @%p1 bra B; st.global.b32 [%a0], %r2; B: mov.b32 %r2, %r3; "
        "add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, 3; @%p1 bra A;",
    ],
    ids=["straight", "guarded", "in branches", "in a loop"],
)
def test_what_may_have_been_written(body: str, completion: str) -> None:
    assert run(body, 1, completion, Level.FORMAL) == []


DECIDES = (
    ("st.global.b32 [%a2], %r0;", "st reads %a2"),
    ("@%p1 st.global.b32 [%a0], %r0;", "st reads %p1"),
    ("@%p1 bra A; A: mov.b32 %r2, %r0; st.global.b32 [%a0], %r2;", "bra reads %p1"),
    ("mov.b64 %a1, %a2; st.global.b32 [%a1], %r0;", "reads %a2"),
    ("atom.global.add.u32 %r3, [%a0], %r2;", "atom reads %r2"),
)


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize(("body", "says"), DECIDES, ids=[says for _, says in DECIDES])
def test_what_decides_is_a_fault(body: str, says: str, completion: str) -> None:
    with pytest.raises(UnwrittenRead, match=f"{says}.*, which nothing wrote"):
        run(body, 1, completion, Level.FORMAL if "mov.b64" in body else Level.FAULT)


@pytest.mark.parametrize("completion", MODES)
def test_other_reads_are_formal(completion: str) -> None:
    for body in ("add.u32 %r3, %r2, 1;", "st.global.b32 [%a0], %r2;", "mov.b32 %r3, %r2; st.global.b32 [%a0], %r3;"):
        (fault, *_) = run(body, 1, completion)
        assert (type(fault), fault.level) == (UnwrittenRead, Level.FORMAL)
        with pytest.raises(UnwrittenRead, match=r"reads %r2, which nothing wrote"):
            run(body, 1, completion, Level.FORMAL)


def test_what_is_not_executed_is_not_found() -> None:
    body = "@%p0 bra A; st.global.b32 [%a2], %r0; A:"
    assert run(body) == []
    with pytest.raises(UnwrittenRead, match="st reads %a2, which nothing wrote"):
        run(body, taken=0)


def test_what_tcgen05_st_stores_is_formal() -> None:
    """FlashInfer's prefill stores a whole vector, of which the narrower P fills only a part."""
    body = """.shared .align 4 .b8 word[4]; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [word], 32;
    ld.shared.b32 %r4, [word]; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r4], {%r2}; tcgen05.wait::st.sync.aligned;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, 32;"""
    (fault,) = run(body)
    assert fault.level == Level.FORMAL and "tcgen05.st reads %r2, which nothing wrote" in str(fault)


@pytest.mark.parametrize("completion", MODES)
def test_local_memory_that_nothing_wrote_is_poison(completion: str) -> None:
    """Tracked per lane and per byte."""
    body = PROGRAM.replace("BODY", ".local .align 4 .b8 own[4]; setp.lt.u32 %p1, %r0, %r1; LOW HIGH")
    body = body.replace("HIGH", "st.local.b16 [own+2], 5; ld.local.b32 %r2, [own]; st.global.b32 [%a0], %r2;")
    text = kernel("k", ".param .u64 out, .param .u32 taken", body.replace("LOW", "@%p1 st.local.b16 [own], 7;"))
    out = np.zeros(32, np.uint32)
    launch(text, [out, 32], completion=completion, level=Level.FORMAL)  # type: ignore[arg-type]
    assert (out == 0x5_0007).all()
    launch(text, [out, 31], completion=completion)  # type: ignore[arg-type]
    assert (out[:31] == 0x5_0007).all() and out[31] == 0x5_FFFF
    with pytest.raises(UnwrittenRead, match="reads local memory at offset 0, which nothing wrote"):
        launch(text, [out, 31], completion=completion, level=Level.FORMAL)  # type: ignore[arg-type]
