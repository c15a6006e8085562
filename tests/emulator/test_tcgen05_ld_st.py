"""tcgen05.ld and .st in every shape against CuTe's copy traits (copy_traits_sm100.hpp), written as layouts of bits."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_launch import kernel, launch
from tensor_layouts import Layout

from emulator import errors
from emulator.machine.order.completion import Completion

PER_REPEAT = {
    # shape: (bits of a row in one repeat, lanes, registers, (thread, value bit) -> bit of [lane][row bit])
    "32x32b": (32, 32, 1, Layout((32, 32), (32, 1))),
    "16x64b": (64, 16, 1, Layout(((2, 2, 8), 32), ((512, 32, 64), 1))),
    "16x128b": (128, 16, 2, Layout(((4, 8), (32, 2)), ((32, 128), (1, 1024)))),
    "16x256b": (256, 16, 4, Layout(((4, 8), (64, 2)), ((64, 256), (1, 2048)))),
}
FORMS = [
    (shape, repeats)
    for shape, (_, _, registers, _) in PER_REPEAT.items()
    for repeats in (1, 2, 4, 8, 16, 32, 64, 128)
    if registers * repeats <= 128
]


def cells(shape: str, repeats: int) -> np.ndarray:
    """Return (lane, column) of register r of thread t: int[registers, 32, 2]."""
    row_bits, _, registers, layout = PER_REPEAT[shape]
    out = np.empty((registers * repeats, 32, 2), int)
    for r in range(registers):
        for t in range(32):
            bit = layout(t, 32 * r)
            for i in range(repeats):
                out[registers * i + r, t] = bit // row_bits, bit % row_bits // 32 + row_bits // 32 * i
    return out


def program(move: str, registers: int, columns: int = 32) -> str:
    """Return a program: four warps fill their lanes with lane << 16 | column, move data, and store their registers."""
    names = ", ".join(f"%v{i}" for i in range(registers))
    fill = "\n".join(
        f"add.s32 %r9, %r8, {c}; add.s32 %r7, %r6, {c}; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r7], {{%r9}};"
        for c in range(columns)
    )
    return kernel(
        "move",
        ".param .u64 out, .param .u64 given",
        f"""
.reg .b32 %r<32>; .reg .b32 %v<128>; .reg .b64 %rd<8>; .reg .pred %p<2>;
.shared .align 4 .b8 address[4];
mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; shfl.sync.idx.b32 %r2, %r2, 0, 31, -1;
mov.b32 %r3, address;
setp.ne.b32 %p0, %r2, 0;
@%p0 bra GO;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r3], {columns};
GO:
bar.sync 0;
ld.shared.b32 %r5, [%r3];
shl.b32 %r4, %r2, 21;
add.s32 %r6, %r5, %r4;
shl.b32 %r8, %r1, 16;
{fill}
tcgen05.wait::st.sync.aligned;
ld.param.b64 %rd1, [out]; ld.param.b64 %rd2, [given];
mul.wide.u32 %rd3, %r1, 4;
add.s64 %rd1, %rd1, %rd3; add.s64 %rd2, %rd2, %rd3;
{move.replace("VALUES", "{" + names + "}")}
bar.sync 0;
@%p0 bra END;
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r5, {columns};
END:
ret;""",
    )


def give(registers: int) -> str:
    return "\n".join(f"st.global.b32 [%rd1+{512 * i}], %v{i};" for i in range(registers))


def look(columns: int) -> str:
    return "\n".join(
        f"add.s32 %r7, %r6, {c}; tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r9}}, [%r7]; "
        f"st.global.b32 [%rd1+{512 * c}], %r9;"
        for c in range(columns)
    )


@pytest.mark.parametrize(("shape", "repeats"), FORMS)
def test_load(shape: str, repeats: int) -> None:
    where = cells(shape, repeats)
    registers = len(where)
    half = 32 - PER_REPEAT[shape][1]
    out = np.zeros((registers, 128), np.uint32)
    load = f"add.s32 %r7, %r6, {half << 16}; tcgen05.ld.sync.aligned.{shape}.x{repeats}.b32 VALUES, [%r7];"
    move = f"{load} {give(registers)}"
    columns = max(32, int(where[..., 1].max()) + 1)
    launch(program(move, registers, columns), [out, out], block=(128, 1, 1))
    lane = where[..., 0] + half
    wanted = [((lane + 32 * w) << 16) | where[..., 1] for w in range(4)]
    np.testing.assert_array_equal(out, np.concatenate(wanted, axis=1))


@pytest.mark.parametrize(("shape", "repeats"), FORMS)
def test_store(shape: str, repeats: int) -> None:
    where = cells(shape, repeats)
    registers = len(where)
    given = np.random.default_rng(0).integers(0, 1 << 32, (registers, 128), np.uint32)
    columns = max(32, int(where[..., 1].max()) + 1)
    out = np.zeros((columns, 128), np.uint32)
    take = "\n".join(f"ld.global.b32 %v{i}, [%rd2+{512 * i}];" for i in range(registers))
    store = f"tcgen05.st.sync.aligned.{shape}.x{repeats}.b32 [%r6], VALUES; tcgen05.wait::st.sync.aligned;"
    launch(program(f"{take}\n{store}\n{look(columns)}", registers, columns), [out, given], block=(128, 1, 1))
    wanted = np.arange(columns)[:, None] | np.arange(128)[None, :] << 16
    for w in range(4):
        wanted[where[..., 1], where[..., 0] + 32 * w] = given[:, 32 * w : 32 * w + 32]
    np.testing.assert_array_equal(out, wanted)


def test_16x32bx2_takes_two_columns_apart() -> None:
    out = np.zeros((4, 128), np.uint32)
    move = f"tcgen05.ld.sync.aligned.16x32bx2.x4.b32 VALUES, [%r6], 20; {give(4)}"
    launch(program(move, 4), [out, out], block=(128, 1, 1))
    t, r = np.arange(128), np.arange(4)[:, None]
    lane, column = t // 32 * 32 + t % 16, r + 20 * (t % 32 // 16)
    np.testing.assert_array_equal(out, lane << 16 | column)


PACKED = [(shape, repeats) for shape, repeats in FORMS if repeats in (1, 2, 8)]


@pytest.mark.parametrize(("shape", "repeats"), PACKED)
def test_pack_takes_the_low_halves_of_two_columns(shape: str, repeats: int) -> None:
    """CuTe's traits of 16-bit elements: the layout is that of the same matrix with two columns per word."""
    where = cells(shape, repeats)
    out = np.zeros((len(where), 128), np.uint32)
    columns = max(32, 1 << (2 * int(where[..., 1].max()) + 1).bit_length())
    move = f"tcgen05.ld.sync.aligned.{shape}.x{repeats}.pack::16b.b32 VALUES, [%r6]; {give(len(where))}"
    launch(program(move, len(where), columns), [out, out], block=(128, 1, 1))
    first = 2 * where[..., 1]
    np.testing.assert_array_equal(out, np.tile((first + 1) << 16 | first, 4))


@pytest.mark.parametrize(("shape", "repeats"), PACKED)
def test_unpack_gives_each_half_a_column(shape: str, repeats: int) -> None:
    where = cells(shape, repeats)
    given = np.random.default_rng(1).integers(0, 1 << 32, (len(where), 128), np.uint32)
    columns = max(32, 1 << (2 * int(where[..., 1].max()) + 1).bit_length())
    out = np.zeros((columns, 128), np.uint32)
    take = "\n".join(f"ld.global.b32 %v{i}, [%rd2+{512 * i}];" for i in range(len(where)))
    store = f"tcgen05.st.sync.aligned.{shape}.x{repeats}.unpack::16b.b32 [%r6], VALUES; tcgen05.wait::st.sync.aligned;"
    launch(program(f"{take}\n{store}\n{look(columns)}", len(where), columns), [out, given], block=(128, 1, 1))
    wanted = np.arange(columns)[:, None] | np.arange(128)[None, :] << 16
    for w in range(4):
        mine, lanes = given[:, 32 * w : 32 * w + 32], where[..., 0] + 32 * w
        wanted[2 * where[..., 1], lanes], wanted[2 * where[..., 1] + 1, lanes] = mine & 0xFFFF, mine >> 16
    np.testing.assert_array_equal(out, wanted)


def test_packed_16x32bx2_takes_pairs_of_columns_apart() -> None:
    out = np.zeros((2, 128), np.uint32)
    move = f"tcgen05.ld.sync.aligned.16x32bx2.x2.pack::16b.b32 VALUES, [%r6], 20; {give(2)}"
    launch(program(move, 2), [out, out], block=(128, 1, 1))
    t, r = np.arange(128), np.arange(2)[:, None]
    column = 2 * r + 20 * (t % 32 // 16)
    np.testing.assert_array_equal(out, (column + 1) << 16 | column)


@pytest.mark.parametrize("completion", ["eager", "lazy", "random"])
@pytest.mark.parametrize("lane", [64, 192])
def test_a_quarter_is_a_warps_own(lane: int, completion: Completion) -> None:
    """Any quarter in the address, or a lane beyond the last, is ignored. Only level `pedantic` reports it."""
    move = f"tcgen05.ld.sync.aligned.32x32b.x1.b32 VALUES, [%r5+{lane << 16:#x}]; {give(1)}"
    out = np.zeros((1, 128), np.uint32)
    launch(program(move, 1), [out, out], block=(128, 1, 1), completion=completion)
    np.testing.assert_array_equal(out[0], np.arange(128) << 16)
    with pytest.raises(errors.OutOfBounds, match=rf"at lane {lane} .*; warp \d reaches lanes"):
        launch(program(move, 1), [out, out], block=(128, 1, 1), level=errors.Level.PEDANTIC)


def test_a_quarter_is_reached_from_its_first_lane() -> None:
    move = f"tcgen05.ld.sync.aligned.32x32b.x1.b32 VALUES, [%r5+0x100000]; {give(1)}"
    with pytest.raises(
        errors.OutOfBounds, match=r"at lane 16 .*; warp \d reaches lanes \d+ to \d+ only, in steps of 3"
    ):
        launch(program(move, 1), [np.zeros(128, np.uint32)] * 2, block=(128, 1, 1))


def test_allocations_of_pairs() -> None:
    """Allocations belong to a cluster of CTA pairs, and must be freed with the cta_group that allocated them."""
    out = np.zeros((1, 128), np.uint32)
    text = program("", 1).replace("alloc.cta_group::1", "alloc.cta_group::2")
    meet = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
    text = text.replace("tcgen05.dealloc", f"{meet} tcgen05.dealloc")
    launch(text, [out, out], grid=(2, 1, 1), block=(128, 1, 1), cluster=(2, 1, 1))
    with pytest.raises(errors.TensorMemoryError, match="cta_group::2 in a cluster of 1: no pair of CTAs"):
        launch(text, [out, out], block=(128, 1, 1))
    mixed = text.replace("dealloc.cta_group::2", "dealloc.cta_group::1")
    with pytest.raises(errors.TensorMemoryError, match="names another cta_group than their allocation"):
        launch(mixed, [out, out], grid=(2, 1, 1), block=(128, 1, 1), cluster=(2, 1, 1))
    permit = text.replace(meet, f"tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned; {meet}")
    permit = permit.replace("setp.ne.b32 %p0", f"{meet} setp.ne.b32 %p0")
    with pytest.raises(errors.TensorMemoryError, match="gives back the permit of another cta_group"):
        launch(permit, [out, out], grid=(2, 1, 1), block=(128, 1, 1), cluster=(2, 1, 1), level=errors.Level.FORMAL)
