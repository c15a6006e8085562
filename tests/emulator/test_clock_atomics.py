"""Atomics in modelled time, and addresses that follow from data: bounds, and sectors that lanes request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from emulator import emulate, launch
from emulator.clock.chips import chip
from emulator.clock.prediction import Prediction
from emulator.clock.spans import ENDLESS, Span, spans
from emulator.engine.effects import effects
from emulator.machine.launch.launch import Launch
from emulator.ptx.parser import parse
from emulator.ptx.syntax import Reg
from lab import clock as bench

B200 = chip("b200")
START = """ld.param.u64 %d1, [data]; ld.param.u64 %d2, [bins]; ld.param.u32 %r30, [count]; mov.u32 %r1, %tid.x;
mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 256, %r1; mul.wide.u32 %d3, %r3, 4; add.u64 %d11, %d1, %d3;
ld.global.u32 %r4, [%d11]; sub.u32 %r31, %r30, 1; and.b32 %r5, %r4, %r31; mul.wide.u32 %d12, %r5, 4;
add.u64 %d4, %d2, %d12;"""
"""Each thread loads a number, and has the address of one of `count` bins."""


def predicted(end: str, arguments: Sequence[Any], ctas: int = 2048) -> Prediction:
    text = bench.entry("u64 data,u64 bins,u32 count,u32 rounds", f"{START} {end} ret;")
    with emulate(clock="b200"):
        found = launch(text, args=[np.zeros(256 * ctas, np.uint32), *arguments, 1], grid=ctas, block=256).prediction
    assert found is not None
    return found


def updated(count: int, words: int, update: str = "red.global.add.u32 [%d4], 1;") -> Prediction:
    """Predict threads that each update one of the first `count` of as many or more words."""
    return predicted(update, [np.zeros(words, np.uint32), count])


def test_few_words_take_longer_than_many() -> None:
    """An H200 takes 46.4, 14.2, 16.4, 3.3 and 0.6 cycles for a warp's atomics."""
    cycles = [updated(count, 1 << 20).cycles / (2048 * 8) for count in (1, 32, 256, 2048, 1 << 20)]
    assert cycles == pytest.approx([46.4, 14.2, 16.4, 3.3, 0.6], rel=0.3)


def test_an_array_bounds_the_words_as_a_mask_does() -> None:
    assert updated(1 << 20, 256).cycles == pytest.approx(updated(256, 1 << 20).cycles, rel=0.05)


def test_an_atomic_whose_result_nothing_reads_is_a_reduction() -> None:
    """The warp does not wait for it."""
    red, atom = (
        updated(1 << 20, 1 << 20, f"{op} [%d4], 1;") for op in ("red.global.add.u32", "atom.global.add.u32 %r9,")
    )
    read = updated(
        1 << 20, 1 << 20, "atom.global.add.u32 %r9, [%d4], 1; add.u32 %r9, %r9, 1; st.global.u32 [%d1], %r9;"
    )
    assert red.cycles == atom.cycles < read.cycles


@pytest.mark.parametrize(
    ("body", "span"),
    [
        ("ld.global.u8 %r6, [%d1]; mul.wide.u32 %d5, %r6, 16;", Span(255 * 16, 16)),
        ("and.b32 %r6, %r4, 60; mul.wide.u32 %d5, %r6, 4;", Span(240, 16)),
        ("rem.u32 %r6, %r4, 100; shl.b32 %r7, %r6, 2; cvt.u64.u32 %d5, %r7;", Span(396, 4)),
        ("shr.u32 %r6, %r4, 24; mul.wide.u32 %d5, %r6, 8;", Span(255 * 8, 8)),
        ("min.u32 %r6, %r4, 9; mad.lo.u32 %r7, %r6, 4, %r1; cvt.u64.u32 %d5, %r7;", Span(36 + 6, 1)),
        ("mul.lo.u32 %r6, %r2, 64; cvt.u64.u32 %d5, %r6;", Span(3 * 64, 64)),
        ("add.u64 %d5, %d4, 64;", Span(64 + 255 * 4, 4)),
        ("cvt.u64.u32 %d5, %r4;", Span(2.0**32 - 1, 1)),
        ("LOOP: add.u64 %d5, %d5, 4; setp.lt.u64 %p1, %d5, 100; @%p1 bra LOOP;", ENDLESS),
        ("add.u64 %d5, %d2, 64;", Span(64, 0)),
    ],
)
def test_bounds_of_addresses(body: str, span: Span) -> None:
    text = bench.entry("u64 data,u64 bins,u32 count,u32 rounds", f"{START} {body} ret;")
    arrays = [np.zeros(1024, np.uint32) for _ in range(2)]
    (kernel,) = parse(text).kernels.values()
    values = [*(array.ctypes.data for array in arrays), 256 | 1 << 32]
    params = np.array(values, np.uint64)
    allocations = [(array.ctypes.data, array.nbytes, "array") for array in arrays]
    asked = Launch(kernel, (4, 1, 1), (7, 1, 1), params.ctypes.data, params, allocations=allocations)
    assert spans(effects(kernel, {}), asked)(Reg("%d5", "b64")) == span


def scattered(address: str) -> float:
    """Return the sectors that a warp's loads request, for threads that each load a word at `address`."""
    ctas, table = 2048, 1 << 26
    to = address.rpartition("add.u64 ")[2].partition(",")[0] or "%d4"
    load = f"{address} ld.global.b32 %r9, [{to}]; st.shared.b32 [0], %r9;"
    found = predicted(load, [np.zeros(table, np.uint32), table], ctas)
    return found.busy["L2"] * found.pace.cycles * B200.l2_share(148) * 148 / 32 / (ctas * 8) - 4


@pytest.mark.parametrize(
    ("address", "sectors"),
    [
        ("", 32),
        ("ld.global.u32 %r6, [%d2]; mul.wide.u32 %d5, %r6, 4; add.u64 %d6, %d2, %d5;", 1),
        ("and.b32 %r6, %r1, 28; mul.wide.u32 %d5, %r6, 4; add.u64 %d6, %d2, %d5; ld.global.u32 %r7, [%d6];"
         "mul.wide.u32 %d7, %r7, 512; and.b32 %r8, %r1, 3; mul.wide.u32 %d8, %r8, 4; add.u64 %d9, %d7, %d8;"
         "add.u64 %d10, %d2, %d9;", 8),
    ],
)  # fmt: skip
def test_lanes_that_loaded_different_indices_load_different_sectors(address: str, sectors: int) -> None:
    """Lanes that loaded one index load bytes beside each other."""
    assert scattered(address) == pytest.approx(sectors, rel=0.15)
