"""TMA boxes: tensor maps of every rank and swizzle, boxes that leave the tensor, stores, reductions, multicast."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pytest
from ptx_launch import aligned, kernel, launch
from reference_reductions import draw, reduced
from tensor_layouts import Swizzle

from emulator import errors
from emulator.bridge.tensormap import encode_im2col, encode_tiled

SWIZZLES = {
    0: None, 1: Swizzle(1, 4, 3), 2: Swizzle(2, 4, 3), 3: Swizzle(3, 4, 3), 4: Swizzle(2, 5, 2), 6: Swizzle(1, 6, 1),
}  # fmt: skip
"""Span in bytes by CUtensorMapSwizzle; 4 and 6 are those of 128 bytes with atoms of 32 and of 64."""
MODES = {4: 3 | 1 << 6, 6: 3 | 3 << 6}
TYPES = {"u1": 0, "u2": 1, "u4": 2, "i4": 3, "u8": 4, "i8": 5, "f2": 6, "f4": 7, "f8": 9}


def tensor_map(array: np.ndarray, box: Sequence[int], swizzle: int, element: int | None = None) -> bytes:
    """Return the 128 bytes of a tensor map of a whole array, whose last axis is the innermost dimension.

    The bits are those that CuTeDSL's host code writes. box: innermost dimension first. element: the type's code.
    """
    dims, strides = array.shape[::-1], array.strides[::-1]
    assert strides[0] == array.itemsize
    words = [0] * 8
    words[0] = array.ctypes.data
    code = TYPES[array.dtype.str[1:]] if element is None else element
    words[1] = 2 | (array.ndim - 1) << 4 | code << 7 | MODES.get(swizzle, swizzle) << 13 | 1 << 18
    outer = [s >> 4 for s in strides[1:]] + [0] * 4
    words[1] |= outer[0] << 32
    words[2] = outer[1] | outer[2] << 32
    words[3] = outer[3]
    sizes = [d - 1 for d in dims] + [0] * 4
    words[4], words[5] = sizes[0] | sizes[1] << 32, sizes[2] | sizes[3] << 32
    boxes = [b - 1 for b in box] + [0] * 4
    words[6] = sizes[4] | boxes[0] << 56
    words[7] = boxes[1] | boxes[2] << 8 | boxes[3] << 16 | boxes[4] << 24
    return struct.pack("<8Q", *words) + bytes(64)


def program(rank: int, size: int, store: str = "") -> str:
    """Return a program of one warp that loads the box into shared memory and stores its bytes in order (or by TMA)."""
    coordinates = "{" + ", ".join(f"%r{20 + i}" for i in range(rank)) + "}"
    loads = "\n".join(f"ld.param.b32 %r{20 + i}, [at+{4 * i}];" for i in range(rank))
    copy = "\n".join(
        f"add.s32 %r6, %r5, {4 * i}; ld.shared.b32 %r7, [%r6]; st.global.b32 [%rd2+{4 * i}], %r7;" for i in range(4)
    )
    out = (
        store.replace("COORDINATES", coordinates)
        or f"""
mov.b32 %r8, 0;
LOOP: setp.ge.u32 %p2, %r8, {size}; @%p2 bra END;
add.s32 %r5, %r2, %r8; shl.b32 %r9, %r1, 4; add.s32 %r5, %r5, %r9;
cvt.u64.u32 %rd3, %r8; add.s64 %rd2, %rd1, %rd3; cvt.u64.u32 %rd3, %r9; add.s64 %rd2, %rd2, %rd3;
add.s32 %r9, %r9, %r8; setp.ge.u32 %p2, %r9, {size}; @%p2 bra END;
{copy}
add.s32 %r8, %r8, 512; bra LOOP;"""
    )
    return kernel(
        "box",
        ".param .align 64 .b8 map[128], .param .align 64 .b8 to[128], .param .align 4 .b8 at[20], .param .u64 out",
        f"""
.reg .b32 %r<40>; .reg .b64 %rd<16>; .reg .pred %p<8>;
.shared .align 1024 .b8 box[{max(size, 16)}]; .shared .align 8 .b8 full[8];
mov.u32 %r1, %tid.x; mov.b32 %r2, box; mov.b32 %r3, full;
elect.sync _|%p1, -1;
@%p1 mbarrier.init.shared.b64 [%r3], 1;
fence.mbarrier_init.release.cluster;
mov.b64 %rd5, map; cvta.param.u64 %rd5, %rd5; mov.b64 %rd6, to; cvta.param.u64 %rd6, %rd6;
{loads}
ld.param.b64 %rd1, [out];
@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], {size};
@%p1 cp.async.bulk.tensor.{rank}d.shared::cta.global.tile.mbarrier::complete_tx::bytes
    [%r2], [%rd5, {coordinates}], [%r3];
WAIT: mbarrier.try_wait.parity.shared.b64 %p0, [%r3], 0; @%p0 bra GO; bra WAIT;
GO:
{out}
END:
ret;""",
    )


CASES = [
    ((1000,), (64,), "f4", (948,), 0),
    ((40, 96), (32, 16), "u2", (64, 10), 2),
    ((40, 96), (64, 16), "u2", (-8, 30), 3),
    ((40, 64), (16, 8), "u2", (0, -3), 1),
    ((5, 30, 64), (32, 8, 2), "u4", (32, 25, 4), 3),
    ((3, 4, 9, 32), (32, 4, 2, 2), "f2", (0, 7, 3, 2), 2),
    ((2, 3, 4, 5, 32), (16, 3, 2, 2, 2), "u1", (16, 2, 2, 1, 1), 0),
    ((40, 96), (32, 16), "f4", (64, 30), 4),
    ((40, 96), (32, 16), "f4", (-16, 3), 6),
]


def boxed(array: np.ndarray, box: Sequence[int], at: Sequence[int]) -> np.ndarray:
    """Return the box of an array at coordinates (innermost first), in elements, zero outside of the array."""
    out = np.zeros(tuple(reversed(box)), array.dtype)
    for index in np.ndindex(out.shape):
        there = tuple(a + i for a, i in zip(reversed(at), index, strict=True))
        if all(0 <= t < d for t, d in zip(there, array.shape, strict=True)):
            out[index] = array[there]
    return out


@pytest.mark.parametrize(("shape", "box", "dtype", "at", "swizzle"), CASES)
def test_load(shape: tuple[int, ...], box: tuple[int, ...], dtype: str, at: tuple[int, ...], swizzle: int) -> None:
    array = (np.arange(np.prod(shape)) % 251 + 1).astype(dtype).reshape(shape)
    expected = boxed(array, box, at).reshape(-1).view(np.uint8)
    out = np.zeros(expected.size, np.uint8)
    raw = tensor_map(array, box, swizzle)
    launch(program(len(box), expected.size), [raw, raw, struct.pack("<5i", *at, *[0] * (5 - len(at))), out])
    if (pattern := SWIZZLES[swizzle]) is not None:
        expected = expected[[pattern(i) for i in range(expected.size)]]
    np.testing.assert_array_equal(out, expected)


def store(rank: int, family: str, modifier: str = "") -> str:
    return f"""
fence.proxy.async.shared::cta;
@%p1 {family}.bulk.tensor.{rank}d.global.shared::cta{modifier}.tile.bulk_group [%rd6, COORDINATES], [%r2];
@%p1 cp.async.bulk.commit_group;
@%p1 cp.async.bulk.wait_group 0;"""


@pytest.mark.parametrize(("shape", "box", "dtype", "at", "swizzle"), CASES)
def test_store_drops_what_leaves_the_tensor(
    shape: tuple[int, ...], box: tuple[int, ...], dtype: str, at: tuple[int, ...], swizzle: int
) -> None:
    at = tuple(max(a, 0) for a in at)
    array = (np.arange(np.prod(shape)) % 251 + 1).astype(dtype).reshape(shape)
    target = np.zeros_like(array)
    expected = target.copy()
    inside = tuple(slice(max(0, a), a + b) for a, b in zip(reversed(at), reversed(box), strict=True))
    expected[inside] = array[inside]
    text = program(len(box), int(np.prod(box)) * array.itemsize, store(len(box), "cp.async"))
    maps = [tensor_map(x, box, swizzle) for x in (array, target)]
    launch(text, [*maps, struct.pack("<5i", *at, *[0] * (5 - len(at))), target])
    np.testing.assert_array_equal(target, expected)


ELEMENTS = {"u32": 2, "s32": 3, "u64": 4, "s64": 5, "f16": 6, "f32": 7, "bf16": 10, "b32": 2, "b64": 4}
REDUCTIONS = {
    "add": ("u32", "s32", "u64", "f32", "f16", "bf16"), "min": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "max": ("u32", "s32", "u64", "s64", "f16", "bf16"), "inc": ("u32",), "dec": ("u32",),
    "and": ("b32", "b64"), "or": ("b32", "b64"), "xor": ("b32", "b64"),
}  # fmt: skip


@pytest.mark.parametrize(("operation", "kind"), [(o, k) for o, kinds in REDUCTIONS.items() for k in kinds])
def test_reduce(operation: str, kind: str) -> None:
    """A box of 32 by 8 at (16, 12) of 16 rows. The part outside of the tensor is dropped."""
    rng = np.random.default_rng(0)
    array, target = (aligned(draw(kind, (16, 64), rng)) for _ in range(2))
    expected = target.copy()
    expected[12:, 16:48] = reduced(operation, kind, target[12:, 16:48], array[12:, 16:48])
    text = program(2, 8 * 32 * array.itemsize, store(2, "cp.reduce.async", f".{operation}"))
    maps = [tensor_map(x, (32, 8), 0, ELEMENTS[kind]) for x in (array, target)]
    launch(text, [*maps, struct.pack("<5i", 16, 12, 0, 0, 0), target])
    np.testing.assert_array_equal(target, expected)


@pytest.mark.parametrize(("operation", "element"), [("max", 7), ("add", 5), ("inc", 3), ("xor", 7), ("add", 9)])
def test_reductions_that_an_element_does_not_have(operation: str, element: int) -> None:
    array = np.zeros((16, 64), np.float64 if element in (5, 9) else np.float32)
    raw = tensor_map(array, (32, 8), 0, element)
    text = program(2, 8 * 32 * array.itemsize, store(2, "cp.reduce.async", f".{operation}"))
    with pytest.raises(errors.DescriptorError, match=f"{operation} of element type {element}; it has"):
        launch(text, [raw, raw, bytes(20), array])


@pytest.mark.parametrize(("dtype", "nan"), [("f4", 0x7FF7_7FF7), ("f2", 0x7FF7)])
def test_nan_outside_the_tensor(dtype: str, nan: int) -> None:
    """The map is made by the driver API, because CuTeDSL cannot request NaN fill."""
    array = aligned(np.ones((6, 64), dtype))
    kind = {"f2": 6, "f4": 7}[dtype]
    sizes, strides = np.array([64, 6], np.uint64), np.array([array.strides[0]], np.uint64)
    extents, steps = np.array([32, 8], np.uint32), np.ones(2, np.uint32)
    a, b, c, d = (each.ctypes.data for each in (sizes, strides, extents, steps))
    raw = encode_tiled(kind, 2, array.ctypes.data, a, b, c, d, 0, 0, 0, 1)
    out = np.zeros((8, 32), dtype)
    launch(program(2, out.nbytes), [raw, raw, struct.pack("<5i", 48, 2, 0, 0, 0), out])
    wanted = np.full((8, 32), nan, f"u{array.itemsize}")
    wanted[:4, :16] = np.ones(1, dtype).view(wanted.dtype)
    np.testing.assert_array_equal(out.view(wanted.dtype), wanted)


def ragged(array: np.ndarray, box: tuple[int, int]) -> bytes:
    """Return a map of a matrix whose boxes end where a slice of its rows ends, as Triton's ragged_tma builds it.

    Its outer coordinates add up modulo 2^64: 2^30 rows of (2^34 elements - 1 row), the slice's end, and the row.
    """
    row = array.strides[0]
    sizes = np.array([array.shape[1], BILLION, 0x7FFF0000, 0x7FFF0000], np.uint64)
    strides = np.array([row, row, (1 << 34) * array.itemsize - row], np.uint64)
    extents, steps = np.array([*box, 1, 1], np.uint32), np.ones(4, np.uint32)
    a, b, c, d = (each.ctypes.data for each in (sizes, strides, extents, steps))
    return encode_tiled(TYPES[array.dtype.str[1:]], 4, array.ctypes.data, a, b, c, d, 0, 0, 0, 0)


BILLION = 1 << 30


@pytest.mark.parametrize(("offset", "length", "row"), [(0, 64, 16), (10, 12, 0), (10, 12, 8), (50, 14, 8)])
def test_boxes_of_a_ragged_tensor(offset: int, length: int, row: int) -> None:
    """A box that starts at `row` of the slice reads zeros after its end, and stores nothing there.

    All arrays are in one allocation: the size of a ragged map does not tell a GPU's comparison how much to copy.
    """
    memory = aligned(np.zeros((8 + 64 + 64, 32), np.uint16))
    out, array, target = np.split(memory, (8, 8 + 64))
    array[:] = np.arange(1, array.size + 1, dtype=np.uint16).reshape(array.shape)
    at = struct.pack("<5i", 0, BILLION - length + row, offset + length, BILLION, 0)
    inside = array[offset + row : offset + length][:8]
    launch(program(4, out.nbytes), [*2 * (ragged(array, (32, 8)),), at, memory])
    np.testing.assert_array_equal(out[: len(inside)], inside)
    assert not out[len(inside) :].any()
    launch(
        program(4, out.nbytes, store(4, "cp.async")), [*(ragged(each, (32, 8)) for each in (array, target)), at, memory]
    )
    wanted = np.zeros_like(array)
    wanted[offset + row : offset + length][:8] = inside
    np.testing.assert_array_equal(target, wanted)


def test_loads_of_tf32_round() -> None:
    """Rounded to 10 mantissa bits, ties to even. Infinities are kept, NaN becomes 7fffe000, and the outside is zero."""
    rng = np.random.default_rng(0)
    given = aligned(rng.standard_normal((16, 64)).astype(np.float32))
    ties = (1 + np.arange(16) * 2.0**-11) * 2.0 ** np.arange(-8, 8)
    given[0, :16], given[1, :4] = ties, [np.inf, -np.inf, np.nan, 2.0**127 * (2 - 2.0**-12)]
    raw = bytearray(tensor_map(given, (32, 8), 0))
    raw[10] |= 1  # bit 80
    out = np.zeros(32 * 8, np.uint32)
    launch(program(2, out.nbytes), [bytes(raw), bytes(raw), bytes(20), out])
    mantissa, exponent = np.frexp(given[:8, :32].astype(np.float64))
    with np.errstate(over="ignore"):
        wanted = np.ldexp(np.rint(mantissa * 2**11), exponent - 11).astype(np.float32)
    np.testing.assert_array_equal(out.view(np.float32).reshape(8, 32), wanted)
    assert hex(out[34]) == "0x7fffe000"


def test_prefetches_do_nothing() -> None:
    array = np.arange(16 * 64, dtype=np.float32).reshape(16, 64)
    raw, out = tensor_map(array, (32, 8), 0), np.zeros((8, 32), np.float32)
    text = program(2, out.nbytes).replace(
        "WAIT:",
        "@%p1 cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd5, {%r20, %r21}];\n"
        "@%p1 prefetch.tensormap [%rd5];\n@%p1 cp.async.bulk.prefetch.L2.global [%rd1], 256;\nWAIT:",
        1,
    )
    launch(text, [raw, raw, struct.pack("<5i", 32, 8, 0, 0, 0), out])
    np.testing.assert_array_equal(out, array[8:, 32:])


def test_a_box_starts_at_a_multiple_of_16_bytes() -> None:
    array = np.zeros((16, 64), np.float32)
    raw = tensor_map(array, (32, 8), 0)
    with pytest.raises(errors.DescriptorError, match="starts 8 bytes into its rows; allowed are multiples of 16"):
        launch(program(2, 1024), [raw, raw, struct.pack("<5i", 2, 1, 0, 0, 0), array])


@pytest.mark.parametrize("at", [(-4, 1), (0, -1)])
@pytest.mark.parametrize(("family", "modifier"), [("cp.async", ""), ("cp.reduce.async", ".add")])
def test_a_store_does_not_start_before_the_tensor(family: str, modifier: str, at: tuple[int, int]) -> None:
    array = np.zeros((16, 64), np.float32)
    raw = tensor_map(array, (32, 8), 0)
    with pytest.raises(errors.DescriptorError, match="only loads may start at negative coordinates"):
        launch(program(2, 1024, store(2, family, modifier)), [raw, raw, struct.pack("<5i", *at, 0, 0, 0), array])


def test_a_map_of_nothing() -> None:
    with pytest.raises(errors.DescriptorError, match="no tensor map"):
        launch(program(2, 512), [bytes(128), bytes(128), bytes(20), np.zeros(4, np.uint8)])


@pytest.mark.parametrize(
    ("box", "swizzle", "offset"), [((3, 8), 0, 0), ((32, 8), 1, 0), ((64, 8), 3, 0), ((32, 8), 0, 8)]
)
def test_a_map_that_no_device_takes(box: tuple[int, int], swizzle: int, offset: int) -> None:
    """Rows that are not a multiple of 16 bytes or are longer than the swizzle, and an unaligned address."""
    array = aligned(np.zeros((16, 64), np.float32))
    raw = bytearray(tensor_map(array, box, swizzle))
    raw[:8] = struct.pack("<Q", array.ctypes.data + offset)
    with pytest.raises(errors.DescriptorError, match="allowed are multiples of 16"):
        launch(program(2, 512), [bytes(raw), bytes(raw), bytes(20), array])


def test_a_map_of_another_rank() -> None:
    array = np.zeros((16, 64), np.float32)
    raw = tensor_map(array, (32, 8), 0)
    with pytest.raises(errors.DescriptorError, match="1 coordinates for a tensor map of 2 dimensions"):
        launch(program(1, 1024), [raw, raw, bytes(20), array])


def output(number: int, sizes: Sequence[int]) -> list[int]:
    """Return image and position of the output with this number, for images of `sizes`."""
    at: list[int] = []
    for size in reversed(sizes):
        number, place = divmod(number, size)
        at.insert(0, place)
    return [number, *at]


def im2col_map(
    image: np.ndarray, channels: int, pixels: int, low: Sequence[int], high: Sequence[int], step: int
) -> bytes:
    """Return the map of images (number, places, channels) as the driver API makes it; corners innermost first."""
    rank, places = image.ndim, image.ndim - 2
    steps = np.array([1, *[step] * places, 1], np.uint32)
    sizes, strides = np.array(image.shape[::-1], np.uint64), np.array(image.strides[-2::-1], np.uint64)
    corners = np.array(low, np.int32), np.array(high, np.int32)
    a, b, c, d, e = (each.ctypes.data for each in (sizes, strides, *corners, steps))
    return encode_im2col(TYPES["f4"], rank, image.ctypes.data, a, b, c, d, channels, pixels, e, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("shape", "low", "high", "step", "words"),
    [
        ((2, 9, 16), [-1], [-2], 2, (0x0700000800000000, 0x00000027FFFEFFFF)),
        ((2, 5, 6, 16), [-1, -2], [3, 5], 1, (0x0700000000000000, 0x000000270503FEFF)),
        ((2, 4, 3, 5, 16), [-1, -2, -3], [1, 2, 3], 1, (0x0700000000000001, 0x000000270C4177DF)),
    ],
)
def test_corners_and_pixels_lie_where_an_h200_s_driver_has_them(shape, low, high, step, words) -> None:
    raw = im2col_map(aligned(np.zeros(shape, np.float32)), 8, 40, low, high, step)
    assert struct.unpack("<2Q", raw[48:64]) == words


@pytest.mark.parametrize(
    ("shape", "filter_size", "stride", "padding", "dilation", "first"),
    [
        ((2, 9, 16), 3, 1, 1, 1, 2),
        ((2, 5, 6, 16), 3, 1, 1, 1, 0),
        ((3, 5, 6, 16), 3, 2, 1, 1, 4),
        ((2, 7, 8, 16), 2, 1, 0, 2, 29),
        ((2, 4, 3, 5, 16), 3, 2, 1, 1, 3),
    ],
)
def test_columns_of_a_convolution(shape, filter_size, stride, padding, dilation, first) -> None:
    """A load brings the inputs that one filter tap multiplies for successive outputs: row by row, image by image."""
    image = aligned(np.random.default_rng(0).standard_normal(shape).astype(np.float32))
    places, pixels, channels, channel = len(shape) - 2, 40, 8, 4
    reach = dilation * (filter_size - 1)
    outputs = [(size + 2 * padding - reach - 1) // stride + 1 for size in shape[1:-1]]
    raw = im2col_map(image, channels, pixels, [-padding] * places, [padding - reach] * places, stride)
    for tap in ([0] * places, list(range(places, 0, -1)), [filter_size - 1] * places):
        wanted = np.zeros((pixels, channels), np.float32)
        for number in range(first, first + pixels):
            which, *at = output(number, outputs)
            there = [stride * a - padding + dilation * t for a, t in zip(at, tap, strict=True)]
            if which < shape[0] and all(0 <= t < size for t, size in zip(there, shape[1:-1], strict=True)):
                wanted[number - first] = image[(which, *there)][channel : channel + channels]
        offsets = "{" + ", ".join(f"%h{i}" for i in range(places)) + "}"
        taps = "".join(f"mov.b16 %h{i}, {dilation * t};" for i, t in enumerate(reversed(tap)))
        text = program(len(shape), pixels * channels * 4).replace(".global.tile.", ".global.im2col.")
        text = text.replace("[%r3];\nWAIT", f"[%r3], {offsets};\nWAIT")
        text = text.replace("elect.sync", f".reg .b16 %h<4>; {taps}\nelect.sync")
        out = np.zeros((pixels, channels), np.float32)
        which, *at = output(first, outputs)
        coordinates = [channel, *(stride * a - padding for a in reversed(at)), which]
        launch(text, [raw, raw, struct.pack("<5i", *coordinates, *[0] * (5 - len(coordinates))), out])
        np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("tiled", [False, True])
def test_a_map_of_the_other_mode(tiled) -> None:
    image = aligned(np.zeros((1, 4, 4, 16), np.float32))
    raw = im2col_map(image, 16, 16, [0, 0], [0, 0], 1)
    text = program(4, 1024)
    if tiled:
        raw = tensor_map(image, (16, 4, 4, 1), 0)
        text = text.replace(".global.tile.", ".global.im2col.").replace("[%r3];\nWAIT", "[%r3], {0, 0};\nWAIT")
    with pytest.raises(errors.DescriptorError, match="is a tiled one" if tiled else "is one of im2col mode"):
        launch(text, [raw, raw, bytes(20), np.zeros(256, np.float32)])


@pytest.mark.parametrize(
    ("channels", "pixels", "corner", "step"), [(0, 8, 0, 1), (8, 1025, 0, 1), (8, 8, -129, 1), (8, 8, 0, 9)]
)
def test_no_map_holds_these_columns(channels, pixels, corner, step) -> None:
    with pytest.raises(ValueError, match=f"{channels} channels, {pixels} pixels" if not corner else "8 bits each"):
        im2col_map(np.zeros((1, 4, 4, 16), np.float32), channels, pixels, [corner] * 2, [0, 0], step)
