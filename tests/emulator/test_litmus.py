"""Weak memory: outcomes of strong accesses that PTX allows are shown or reported, and those that it forbids are not."""

from __future__ import annotations

import numpy as np
import pytest

import emulator
from emulator.errors import DataRace
from lab.litmus import FENCES, FEW, SCOPES, TESTS, Litmus, judged, outcome, seen, source
from tests.emulator.ptx_kernel import source as kernel
from tests.tiers import shortened

BY_NAME = {test.name: test for test in TESTS}


@pytest.mark.parametrize("scope", [s if s == "cta" else pytest.param(s, marks=pytest.mark.long) for s in SCOPES])
@pytest.mark.parametrize("test", shortened(3, TESTS), ids=lambda test: test.name)
def test_weak_outcomes(test: Litmus, scope: str) -> None:
    """docs/reference/litmus.md has the outcomes at scope gpu."""
    for fence in FENCES:
        allowed, it = judged(test, fence, scope)
        assert (it.shown or it.reported) == allowed, f"{test.name} with {fence or 'no fence'}: {it}"


@pytest.mark.parametrize("name", ["message passing", "store buffering"])
def test_a_fence_of_a_narrower_scope_orders_nothing(name: str) -> None:
    it = seen(BY_NAME[name], "fence.sc", "gpu", narrow="cta")
    assert it.shown and it.reported == (name == "message passing")


MESSAGE = """mov.u32 %r0, %ctaid.x; setp.ne.u32 %p0, %r0, 0; @%p0 bra C;
st.volatile.global.u32 [%a0+64], 7; WRITER {flag}; bra E;
C: ld.volatile.global.u32 %r1, [%a0]; setp.eq.u32 %p1, %r1, 0; @%p1 bra C; READER
{read} E: ret;"""
FLAG, READ = "st.volatile.global.u32 [%a0], 1", "ld.volatile.global.u32 %r2, [%a0+64];"
RETRY = "D: ld.volatile.global.u32 %r2, [%a0+64]; setp.eq.u32 %p1, %r2, 0; @%p1 bra D;"


@pytest.mark.parametrize(
    ("flag", "read", "writer", "reader", "missing"),
    [
        (FLAG, READ, "", "", 2),
        ("atom.global.exch.b32 %r3, [%a0], 1", READ, "", "", 2),
        ("red.global.add.u32 [%a0], 1", READ, "", "", 2),
        (FLAG, READ, "membar.gl;", "", 1),
        (FLAG, READ, "", "fence.acq_rel.gpu;", 2),
        (FLAG, READ, "fence.acq_rel.gpu;", "fence.acq_rel.gpu;", 0),
        ("st.release.gpu.global.u32 [%a0], 1", READ, "", "fence.acq_rel.gpu;", 0),
        (FLAG, RETRY, "", "", 0),
        (FLAG, "st.volatile.global.u32 [%a0+64], 9;", "", "", 2),
        (FLAG, "st.volatile.global.u32 [%a0], 0;", "", "", 0),
    ],
)
def test_data_after_a_flag(flag: str, read: str, writer: str, reader: str, missing: int) -> None:
    """A load that is repeated until it finds the data relies on nothing, and a place is in one order for all."""
    body = MESSAGE.format(flag=flag, read=read).replace("WRITER", writer).replace("READER", reader)
    with emulator.emulate(diagnostics="report") as device:
        emulator.launch(kernel(body), "k", [np.zeros(64, np.uint32)], grid=2)
    found = device.launches[-1].findings
    assert len(found) == bool(missing)
    for fault in found:
        assert isinstance(fault, DataRace)
        assert dict(fault.lines)["missing"].count("fence.acq_rel") == missing


def test_another_write_between_ends_the_older_values() -> None:
    """A weak store that is ordered after a strong one leaves nothing older to read."""
    body = """mov.u32 %r0, %ctaid.x; setp.ne.u32 %p0, %r0, 0; @%p0 bra C;
st.relaxed.gpu.global.u32 [%a0+64], 5; st.global.u32 [%a0+64], 7; st.release.gpu.global.u32 [%a0], 1; bra E;
C: ld.acquire.gpu.global.u32 %r1, [%a0]; setp.eq.u32 %p1, %r1, 0; @%p1 bra C;
ld.relaxed.gpu.global.u32 %r2, [%a0+64]; st.global.u32 [%a0+4], %r2; E: ret;"""
    for seed in range(FEW):
        out = np.zeros(64, np.uint32)
        with emulator.emulate(completion="random", seed=seed):
            emulator.launch(kernel(body), "k", [out], grid=2)
        assert out[1] == 7


def test_only_random_shows_other_orders() -> None:
    test = BY_NAME["store buffering"]
    for mode in ("lazy", "eager"):
        assert outcome(test, source(test, "", "gpu"), "gpu", completion=mode)[0] != test.weak
