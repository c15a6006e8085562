"""A blamed element of a right program, of every data type, is recomputed: no rounding is taken for another's."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ptx_launch import kernel

import emulator
from emulator.debug.blame import Blame, find
from emulator.debug.report import Question, report

FLOATS = {
    "f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16,
    "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2,
}  # fmt: skip
"""The types of tensors with floats."""
LOOSEST = {"f64": 1e-15, "f32": 1e-6, "f16": 2e-3, "bf16": 1e-2, "e4m3": 0.1, "e5m2": 0.2}
"""The relative difference that one rounding of the type makes, and a little more."""
HEADER = (
    ".reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .b16 %h<9>; .reg .f32 %f<9>; .reg .f64 %d<9>; .reg .b8 %b<5>;\n"
    ".shared .align 16 .b8 tile[2048];\n"
    "ld.param.b64 %rd1, [x]; ld.param.b64 %rd2, [y]; mov.u32 %r1, %tid.x; cvt.u64.u32 %rd3, %r1;\n"
)
COPIES = {
    "registers": ("mad.lo.u64 %rd4, %rd3, 16, %rd1; mad.lo.u64 %rd5, %rd3, 16, %rd2;"
                  "ld.global.v4.b32 {{%r2, %r3, %r4, %r5}}, [%rd4]; st.global.v4.b32 [%rd5], {{%r2, %r3, %r4, %r5}};"),
    "bytes": ("mad.lo.u64 %rd4, %rd3, 16, %rd1; mad.lo.u64 %rd5, %rd3, 16, %rd2; mov.u32 %r2, 0;\n"
              "again: ld.global.b8 %h1, [%rd4]; st.global.b8 [%rd5], %h1; add.u64 %rd4, %rd4, 1;"
              "add.u64 %rd5, %rd5, 1; add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 16; @%p1 bra again;"),
    "cp.async": ("mad.lo.u64 %rd4, %rd3, 16, %rd1; mad.lo.u64 %rd5, %rd3, 16, %rd2; shl.b32 %r2, %r1, 4;"
                 "mov.u32 %r3, tile; add.u32 %r2, %r2, %r3; mov.u32 %r4, {filled};\n"
                 "cp.async.ca.shared.global [%r2], [%rd4], {size}, %r4; cp.async.wait_all;\n"
                 "ld.shared.v4.b32 {{%r2, %r3, %r4, %r5}}, [%r2]; st.global.v4.b32 [%rd5], {{%r2, %r3, %r4, %r5}};"),
}  # fmt: skip
"""Copies of 512 bytes by a warp."""


def blamed(body: str, x: torch.Tensor, y: torch.Tensor, index: int) -> Blame:
    text = kernel("copies", ".param .u64 x, .param .u64 y", HEADER + ".reg .pred %p<3>;\n" + body + "\nret;")
    with emulator.emulate() as device:
        recorder = device.record()
        emulator.launch(text, None, [x, y], block=32)
    return Blame(*find(recorder.recordings, "y"), (index,))


def assert_recomputed(blame: Blame, relative: float) -> None:
    held = float(blame.tensor.values()[blame.index])
    assert blame.start is not None
    assert blame.exact.without(frozenset())[blame.start] == held, "with all roundings"
    exact = blame.exact.without()[blame.start]
    assert exact is not None and abs(exact - held) <= relative * abs(held)


@pytest.mark.parametrize("kind", FLOATS)
@pytest.mark.parametrize("copy", ["registers", "bytes", "cp.async"])
def test_copies(copy: str, kind: str) -> None:
    x = (torch.arange(512) % 13 + 1).to(FLOATS[kind])[: 512 // FLOATS[kind].itemsize]
    for filled in (16, 6) if copy == "cp.async" else (16,):
        body = COPIES[copy].format(size=16, filled=filled)
        y = torch.zeros_like(x)
        for index in (0, 1, 3 * (16 // x.itemsize) + 1):
            assert_recomputed(blamed(body, x, y, index), 0)
        assert filled < 16 or torch.equal(x, y)


ARITHMETIC = {
    "f64": "ld.global.f64 %d1, [%rd1]; fma.rn.f64 %d2, %d1, %d1, 0d3FB999999999999A; st.global.f64 [%rd2], %d2;",
    "f32": "ld.global.f32 %f1, [%rd1]; ex2.approx.f32 %f2, %f1; sub.f32 %f2, %f2, %f1; st.global.f32 [%rd2], %f2;",
    "f16": "ld.global.b32 %r2, [%rd1]; fma.rn.f16x2 %r3, %r2, %r2, %r2; st.global.b32 [%rd2], %r3;",
    "bf16": "ld.global.b32 %r2, [%rd1]; mul.rn.bf16x2 %r3, %r2, %r2; st.global.b32 [%rd2], %r3;",
    "e4m3": "ld.global.b16 %h1, [%rd1]; cvt.rn.f16x2.e4m3x2 %r2, %h1; mul.rn.f16x2 %r2, %r2, %r2;"
            "cvt.rn.satfinite.e4m3x2.f16x2 %h2, %r2; st.global.b16 [%rd2], %h2;",
    "e5m2": "ld.global.b16 %h1, [%rd1]; cvt.rn.f16x2.e5m2x2 %r2, %h1; add.rn.f16x2 %r2, %r2, %r2;"
            "cvt.rn.satfinite.e5m2x2.f16x2 %h2, %r2; st.global.b16 [%rd2], %h2;",
}  # fmt: skip


@pytest.mark.parametrize("kind", FLOATS)
def test_arithmetic_and_in_place(kind: str) -> None:
    """The input that was read counts, not what the launch put into its place afterwards."""
    x, y = torch.linspace(0.7, 1.9, 8).to(FLOATS[kind]), torch.zeros(8, dtype=FLOATS[kind])
    for index in (0,) if kind in ("f64", "f32") else (0, 1):
        blame = blamed("setp.ne.u32 %p1, %r1, 0; @%p1 ret; " + ARITHMETIC[kind], x, y, index)
        assert_recomputed(blame, 2 * LOOSEST[kind])
        assert not blame.exact.unknown()
        again = y.clone()
        assert_recomputed(
            blamed("setp.ne.u32 %p1, %r1, 0; @%p1 ret; mov.b64 %rd1, %rd2; " + ARITHMETIC[kind], x, again, index),
            2 * LOOSEST[kind],
        )


ATOMICS = {
    "f64": "ld.global.f64 %d1, [%rd4]; red.global.add.f64 [%rd2], %d1;",
    "f32": "ld.global.f32 %f1, [%rd4]; red.global.add.f32 [%rd2], %f1;",
    "f16": "ld.global.b16 %h1, [%rd4]; mov.b32 %r2, {%h1, %h1}; red.global.add.noftz.f16x2 [%rd2], %r2;",
    "bf16": "ld.global.b16 %h1, [%rd4]; red.global.add.noftz.bf16 [%rd2], %h1;",
}


@pytest.mark.parametrize("kind", ATOMICS)
def test_atomics_count_each_lane_once(kind: str) -> None:
    """32 lanes add to a value that stood there, twice."""
    x, y = torch.arange(1, 33).to(FLOATS[kind]), torch.full((2,), 5.0).to(FLOATS[kind])
    body = f"mad.lo.u64 %rd4, %rd3, {x.itemsize}, %rd1; {ATOMICS[kind]} {ATOMICS[kind]}"
    for index in (0, 1) if kind == "f16" else (0,):
        y.fill_(5)
        blame = blamed(body, x, y, index)
        assert_recomputed(blame, 20 * LOOSEST[kind])
        assert blame.start is not None and blame.exact.without()[blame.start] == 5 + 2 * 528


@pytest.mark.parametrize(("operation", "index", "inputs"), [("add", 9, "x[0:9]"), ("exch", 9, "x[8]"), ("add", 0, "")])
def test_what_an_atomic_operation_returns(operation: str, index: int, inputs: str) -> None:
    """The value before the lane's own: of all lanes before it, of the last one, or of the launch."""
    x, y = torch.arange(1.0, 33), torch.zeros(33)
    y[32] = 0.5
    kind = "f32" if operation == "add" else "b32"
    body = (
        "mad.lo.u64 %rd4, %rd3, 4, %rd1; mad.lo.u64 %rd5, %rd3, 4, %rd2; ld.global.f32 %f1, [%rd4];"
        f"atom.global.{operation}.{kind} %f2, [%rd2+128], %f1; st.global.f32 [%rd5], %f2;"
    )
    blame = blamed(body, x, y, index)
    assert_recomputed(blame, 0)
    of_x = [line for line in blame.inputs() if line.startswith("x")]
    assert of_x == ([inputs] if inputs else [])


def test_a_maximum_is_no_sum() -> None:
    """A report on a value that float64 does not follow says nothing about rounding."""
    x, y = torch.arange(1.0, 33), torch.full((2,), 5.0)
    body = "ld.global.f32 %f1, [%rd1]; cvt.rzi.s32.f32 %r2, %f1; atom.global.max.s32 %r3, [%rd2], %r2;"
    blame = blamed(body, x, y, 0)
    said = list(blame.lines(expected=7.0))
    assert not any("rounding is not the cause" in line for line in said)


@pytest.mark.parametrize("kind", ["f16", "bf16", "tf32", "f64"])
def test_products_of_a_warp(kind: str) -> None:
    """mma.sync: every element of D, from registers that hold one element of A and B, or two."""
    rng = np.random.default_rng(1)
    a, d, shape, count = {
        "f16": ("f16", "f32", "m16n8k16", 4), "bf16": ("bf16", "f32", "m16n8k16", 4),
        "tf32": ("f32", "f32", "m16n8k8", 4), "f64": ("f64", "f64", "m8n8k4", 1),
    }[kind]  # fmt: skip
    wide = "b64" if kind == "f64" else "b32"
    size, results = (8, 2) if kind == "f64" else (4, 4)
    x = torch.tensor(rng.normal(size=32 * (count + max(count // 2, 1)) * size // FLOATS[a].itemsize)).to(FLOATS[a])
    y = torch.zeros(32 * results, dtype=FLOATS[d])
    total = count + max(count // 2, 1)
    load = "".join(f"ld.global.{wide} %w{i}, [%rd4+{i * size}];" for i in range(total))
    left, right = (", ".join(f"%w{i}" for i in each) for each in (range(count), range(count, total)))
    to = ", ".join(f"%z{i}" for i in range(results))
    body = (
        f".reg .{wide} %w<8>; .reg .{d} %z<4>;\nmad.lo.u64 %rd4, %rd3, {total * size}, %rd1;"
        f"mad.lo.u64 %rd5, %rd3, {results * FLOATS[d].itemsize}, %rd2;\n{load}\n"
        + "".join(f"mov.{d} %z{i}, {'0d3FF0000000000000' if d == 'f64' else '0f3F800000'};" for i in range(results))
        + f"\nmma.sync.aligned.{shape}.row.col.{d}.{kind}.{kind}.{d} {{{to}}}, {{{left}}}, {{{right}}}, {{{to}}};\n"
        + "".join(f"st.global.{d} [%rd5+{i * FLOATS[d].itemsize}], %z{i};" for i in range(results))
    )
    for index in range(0, 32 * results, 7):
        blame = blamed(body, x, y, index)
        assert_recomputed(blame, 0.05)
        assert not blame.exact.unknown()


def test_a_constant_factor_is_named() -> None:
    """A logarithm to base 2 where the natural one is expected."""
    x, y = torch.linspace(1.5, 9, 32), torch.zeros(32)
    body = (
        "mad.lo.u64 %rd4, %rd3, 4, %rd1; mad.lo.u64 %rd5, %rd3, 4, %rd2; ld.global.f32 %f1, [%rd4];"
        "lg2.approx.f32 %f1, %f1; st.global.f32 [%rd5], %f1;"
    )
    with emulator.emulate() as device:
        recorder = device.record()
        emulator.launch(kernel("logarithm", ".param .u64 x, .param .u64 y", HEADER + body + "\nret;"), None, [x, y])
    said = list(report(recorder.recordings, Question("y", np.log(x.numpy()))))
    assert said[0] == "32 of 32 elements of y are wrong: y[:], each about 1.4427 times what is expected"


ROWS = (
    "mad.lo.u64 %rd4, %rd3, {0}, %rd1; mad.lo.u64 %rd5, %rd3, {1}, %rd2; mov.u32 %r3, tile; shl.b32 %r2, %r1, 4;"
    "add.u32 %r2, %r2, %r3;\n"
)
WIDE = "ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%rd4];"
BULK = (
    WIDE + "st.shared.v4.b32 [%r2], {%r4, %r5, %r6, %r7}; fence.proxy.async; bar.sync 0; setp.ne.u32 %p1, %r1, 0;"
    "@%p1 ret; cp.reduce.async.bulk.global.shared::cta.bulk_group.add{0} [%rd2], [%r3], 512;"
    "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
)
TMA = (
    ".shared .align 8 .b64 bar; mov.u32 %r4, bar; setp.ne.u32 %p1, %r1, 0; @%p1 bra wait; mbarrier.init.shared.b64 "
    "[%r4], 1; fence.mbarrier_init.release.cluster; mbarrier.arrive.expect_tx.shared.b64 _, [%r4], 512;"
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 512, [%r4];\n"
    "wait: bar.warp.sync -1;\nagain: mbarrier.try_wait.parity.shared.b64 %p2, [%r4], 0; @!%p2 bra again;"
    "ld.shared.v4.b32 {%r5, %r6, %r7, %r8}, [%r2]; st.global.v4.b32 [%rd5], {%r5, %r6, %r7, %r8};"
)
FLOAT = "ld.global.f32 %f1, [%rd4]; "
END = " st.global.f32 [%rd5], %f2;"
RIGHT = {
    "shfl.bfly": ("f32", "f32", 4, 4, FLOAT + "shfl.sync.bfly.b32 %f2, %f1, 3, 31, -1; add.f32 %f2, %f2, %f1;" + END),
    "shfl.up": ("f32", "f32", 4, 4, FLOAT + "shfl.sync.up.b32 %f2, %f1, 2, 0, -1; mul.f32 %f2, %f2, %f1;" + END),
    "redux": ("f32", "f32", 4, 4, FLOAT + "neg.f32 %f1, %f1; redux.sync.max.abs.f32 %f2, %f1, -1;" + END),
    "two f32": ("f32", "f32", 8, 8, "ld.global.b64 %rd6, [%rd4]; fma.rn.f32x2 %rd6, %rd6, %rd6, %rd6;"
                "st.global.b64 [%rd5], %rd6;"),
    "two f32 by bits": ("f32", "f32", 8, 8, "ld.global.v2.b32 {%r4, %r5}, [%rd4]; cvt.u64.u32 %rd6, %r4;"
                        "cvt.u64.u32 %rd7, %r5; shl.b64 %rd7, %rd7, 32; or.b64 %rd6, %rd7, %rd6;"
                        "mul.rn.f32x2 %rd6, %rd6, %rd6; st.global.b64 [%rd5], %rd6;"),
    "two bf16 of f32": ("f32", "bf16", 8, 4, "ld.global.v2.f32 {%f1, %f2}, [%rd4]; mul.f32 %f1, %f1, %f2;"
                        "cvt.rn.bf16x2.f32 %r4, %f1, %f2; st.global.b32 [%rd5], %r4;"),
    "f32 of two bf16": ("bf16", "f32", 4, 4, "ld.global.b32 %r4, [%rd4]; shl.b32 %r5, %r4, 16; mov.b32 %f1, %r5;"
                        "and.b32 %r6, %r4, -65536; mov.b32 %f2, %r6; fma.rn.f32 %f2, %f1, %f2, %f2;" + END),
    "f32 of bf16 by prmt": ("bf16", "f32", 4, 4, "ld.global.b32 %r4, [%rd4]; mov.b32 %r5, 0;"
                            "prmt.b32 %r6, %r4, %r5, 0x1044; mov.b32 %f1, %r6; mul.f32 %f2, %f1, %f1;" + END),
    "s8": ("s8", "f32", 1, 4, "ld.global.s8 %r4, [%rd4]; cvt.rn.f32.s32 %f1, %r4; mul.f32 %f2, %f1, 0f3DCCCCCD;" + END),
    "ldmatrix": ("f16", "f16", 16, 16, WIDE + "st.shared.v4.b32 [%r2], {%r4, %r5, %r6, %r7}; bar.sync 0;"
                 "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r4, %r5, %r6, %r7}, [%r2];"
                 "mul.rn.f16x2 %r4, %r4, %r4; st.global.v4.b32 [%rd5], {%r4, %r5, %r6, %r7};"),
    "ldmatrix.trans": ("bf16", "bf16", 16, 16, WIDE + "st.shared.v4.b32 [%r2], {%r4, %r5, %r6, %r7}; bar.sync 0;"
                       "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r4, %r5, %r6, %r7}, [%r2];"
                       "st.global.v4.b32 [%rd5], {%r4, %r5, %r6, %r7};"),
    "stmatrix": ("f16", "f16", 16, 16, WIDE + "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r2], {%r4, %r5, %r6, %r7};"
                 "bar.sync 0; ld.shared.v4.b32 {%r4, %r5, %r6, %r7}, [%r2];"
                 "st.global.v4.b32 [%rd5], {%r4, %r5, %r6, %r7};"),
    "TMA of bf16": ("bf16", "bf16", 16, 16, TMA),
    "TMA of e4m3": ("e4m3", "e4m3", 16, 16, TMA),
    "TMA adds f32": ("f32", "f32", 16, 16, BULK.replace("{0}", ".f32")),
    "TMA adds bf16": ("bf16", "bf16", 16, 16, BULK.replace("{0}", ".noftz.bf16")),
    "red of four f32": ("f32", "f32", 16, 4, "ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd4];"
                        "red.global.add.v4.f32 [%rd2], {%f1, %f2, %f3, %f4};"),
    "red of four bf16": ("bf16", "bf16", 8, 4, "ld.global.v2.b32 {%r4, %r5}, [%rd4];"
                         "red.global.add.noftz.v2.bf16x2 [%rd2], {%r4, %r5};"),
    "atom in shared memory": ("f32", "f32", 4, 4, "setp.ne.u32 %p1, %r1, 0; @!%p1 st.shared.f32 [%r3], 0f3F800000;"
                              "bar.sync 0; " + FLOAT + "atom.shared.add.f32 %f3, [%r3], %f1; bar.sync 0;"
                              "ld.shared.f32 %f2, [%r3];" + END),
    "atom.exch": ("f32", "f32", 4, 4, FLOAT + "atom.global.exch.b32 %f3, [%rd5], %f1;"),
    "an array of a thread": ("f32", "f32", 4, 4, ".local .align 4 .b8 stack[8]; " + FLOAT +
                             "st.local.f32 [stack+4], %f1; ld.local.f32 %f2, [stack+4]; mul.f32 %f2, %f2, %f2;" + END),
}  # fmt: skip
"""Right programs: the types of x and y, the bytes of both that a lane has, and the body."""


@pytest.mark.parametrize("name", RIGHT)
def test_right_programs(name: str) -> None:
    kind, result, step, to, body = RIGHT[name]
    dtypes = FLOATS | {"s8": torch.int8}
    x = (torch.arange(512) % 13 + 1.5).to(dtypes[kind])[: 512 // dtypes[kind].itemsize]
    y = torch.ones(512 // dtypes[result].itemsize).to(dtypes[result])
    for index in (0, 1, 2, 3):
        y.fill_(1)
        blame = blamed(ROWS.format(step, to) + body, x, y, index)
        assert_recomputed(blame, 10 * LOOSEST[result])
        assert not blame.exact.unknown()
        assert any(line.startswith("x[") for line in blame.inputs()), "an element of x reaches it"


def test_the_bits_of_a_float_are_not_followed() -> None:
    """A logarithm by its exponent bits: whether rounding is the cause is not known; it is shown as a float."""
    body = (
        ROWS.format(4, 4) + FLOAT + "mul.f32 %f1, %f1, 0f3F8CCCCD; mov.b32 %r4, %f1; and.b32 %r5, %r4, -8388608;"
        "sub.s32 %r6, %r4, %r5; cvt.rn.f32.s32 %f2, %r6;" + END
    )
    blame = blamed(body, torch.full((128,), 1.7), torch.zeros(128), 0)
    said = "\n".join(blame.lines(expected=1.0))
    assert "whether rounding is the cause is not known" in said and "\n      1.87" in said


def test_a_factor_that_is_not_the_same_everywhere_is_not_named() -> None:
    """m + log2(s) in place of m + ln(s): the ratio differs between rows."""
    m, s = np.linspace(0.5, 1.5, 32), np.linspace(90, 140, 32)
    x, y = torch.tensor(m + np.log2(s)).float(), torch.zeros(32)
    with emulator.emulate() as device:
        recorder = device.record()
        body = HEADER + ROWS.format(4, 4) + "ld.global.f32 %f2, [%rd4];" + END + "\nret;"
        emulator.launch(kernel("sums", ".param .u64 x, .param .u64 y", body), None, [x, y])
    said = list(report(recorder.recordings, Question("y", m + np.log(s))))
    assert said[0] == "32 of 32 elements of y are wrong: y[:]"


@pytest.mark.parametrize(("launch", "held"), [(1, 128.0), (2, 256.0), (3, 384.0), (None, 384.0)])
def test_a_launch_before_the_last_is_explained_by_what_it_left(launch: int | None, held: float) -> None:
    """Three launches add to one element. Each but the last also says what the element is now."""
    x, y = torch.full((32,), 4.0), torch.zeros(8)
    with emulator.emulate() as device:
        recorder = device.record(None if launch is None else {launch})
        body = HEADER + ROWS.format(4, 4) + FLOAT + "red.global.add.f32 [%rd2+8], %f1;\nret;"
        for _ in range(3):
            emulator.launch(kernel("sums", ".param .u64 x, .param .u64 y", body), None, [x, y])
        y.mul_(1)
    said = list(report(recorder.recordings, Question("y", element=(2,), launch=launch)))
    assert said[0] == f"y[2] is {held:g}"
    assert ("  it is 384 now: something after this launch wrote it" in said) == (held != 384)
    assert f"the same operations without rounding, in float64, give {held:g}" in said
    compared = list(report(recorder.recordings, Question("y", [0, 0, held, 0, 0, 0, 0, 0], launch=launch)))
    assert compared[0] == "y is as expected"
