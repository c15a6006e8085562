"""Tensor maps that a kernel modifies, and maps of elements smaller than a byte."""

from __future__ import annotations

import re
import struct

import numpy as np
import pytest
from ptx_launch import aligned, kernel, launch
from test_cp_async_bulk_tensor import TYPES, boxed, program, tensor_map

from emulator import errors
from emulator.bridge.tensormap import encode_tiled
from emulator.machine.formats.tensormap import replaced
from emulator.machine.order.completion import Completion

MODES = ("eager", "lazy", "random")


def changed(old: np.ndarray, new: np.ndarray, box: tuple[int, ...]) -> list[tuple[str, int, int]]:
    """Return the (field, index, value) replacements that turn a map of `old` into one of `new`."""
    fields = [("global_address", 0, new.ctypes.data), ("elemtype", 0, TYPES[new.dtype.str[1:]])]
    fields += [("global_dim", i, n) for i, n in enumerate(new.shape[::-1])]
    fields += [("global_stride", i, s) for i, s in enumerate(new.strides[-2::-1])]
    return fields + [("box_dim", i, b) for i, b in enumerate(box)]


def test_replaced_fields_make_the_other_map() -> None:
    old, new = np.zeros((3, 40, 64), np.float32), np.zeros((7, 24, 96), np.uint16)
    raw = tensor_map(old, (32, 8, 2), 2)
    for field, index, value in changed(old, new, (16, 4, 3)):
        raw = replaced(raw, field, value, index)
    assert raw == tensor_map(new, (16, 4, 3), 2)


@pytest.mark.parametrize(("mode", "atomicity", "swizzle"), [(0, 0, 0), (2, 0, 2), (3, 0, 3), (3, 1, 4), (3, 3, 6)])
def test_replaced_swizzles(mode: int, atomicity: int, swizzle: int) -> None:
    array = np.zeros((40, 64), np.float32)
    raw = replaced(tensor_map(array, (32, 8), 1), "swizzle_mode", mode)
    assert replaced(raw, "swizzle_atomicity", atomicity) == tensor_map(array, (32, 8), swizzle)


@pytest.mark.parametrize(("number", "driver"), [(11, 11), (10, 9), (9, 8), (8, 10), (13, 13), (14, 14), (15, 15)])
def test_replaced_elements_are_those_of_the_driver(number: int, driver: int) -> None:
    """tensormap.replace and CUtensorMapDataType number the types differently: PTX ISA 9.1, table 33."""
    array = aligned(np.zeros((6, 128), np.uint8))
    of_bytes, wanted = (small_map(array.ctypes.data, kind, (128, 6), 128, (128, 4)) for kind in (0, driver))
    assert replaced(of_bytes, "elemtype", number) == wanted


def test_fields_that_nothing_needs_may_be_replaced_by_what_they_are() -> None:
    raw = tensor_map(np.zeros((40, 64), np.float32), (32, 8), 1)
    for field, value in (("interleave_layout", 0), ("fill_mode", 0), ("element_stride", 1)):
        assert replaced(raw, field, value, 1) == raw


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [("interleave_layout", 1, "interleave"), ("element_stride", 2, "strides"), ("fill_mode", 1, "filled with NaN")],
)
def test_fields_that_tma_does_not_have_here(field: str, value: int, says: str) -> None:
    raw = replaced(tensor_map(aligned(np.zeros((40, 64), np.uint32)), (32, 8), 3), field, value, 1)
    with pytest.raises(errors.DescriptorError, match=says):
        launch(program(2, 1024), [raw, raw, bytes(20), np.zeros(1024, np.uint8)])


NONE = [("elemtype", 12), ("swizzle_atomicity", 4), ("box_dim", 257), ("rank", 9), ("global_dim", 0)]


@pytest.mark.parametrize(("field", "value"), [("global_stride", 8), *NONE])
def test_values_that_no_map_holds(field: str, value: int) -> None:
    with pytest.raises(ValueError, match=field):
        replaced(bytes(128), field, value)


ACQUIRE = "fence.proxy.tensormap::generic.acquire.gpu [%rd9], 128;"
IN_GLOBAL = """
@%p1 tensormap.replace.tile.global_address.global.b1024.b64 [%rd9], %rd1;
@%p1 tensormap.replace.tile.global_dim.global.b1024.b32 [%rd9], 1, %r10;
fence.proxy.tensormap::generic.release.gpu;
"""
IN_SHARED = """
add.s64 %rd4, %rd9, %rd8; ld.global.b32 %r11, [%rd4]; add.s32 %r12, %r4, %r8; st.shared.b32 [%r12], %r11;
bar.warp.sync -1;
@%p1 tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r4], %rd1;
@%p1 tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r4], 1, %r10;
bar.warp.sync -1;
tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd9], [%r4], 128;
"""


def through_changed_map(
    change: str, acquire: str, completion: Completion = "lazy", threads: int = 32
) -> tuple[np.ndarray, np.ndarray]:
    """Change a map to the first 5 rows of another array, load a box of 8 rows of 32, and return box and array."""
    text = kernel(
        "changed",
        ".param .u64 map, .param .u64 to, .param .u64 out",
        f"""
.reg .b32 %r<40>; .reg .b64 %rd<16>; .reg .pred %p<8>;
.shared .align 128 .b8 box[1024]; .shared .align 128 .b8 copy[128]; .shared .align 8 .b8 full[8];
mov.u32 %r1, %tid.x; mov.b32 %r2, box; mov.b32 %r3, full; mov.b32 %r4, copy; mov.b32 %r5, 0; mov.b32 %r10, 5;
shl.b32 %r8, %r1, 2; cvt.u64.u32 %rd8, %r8;
elect.sync _|%p1, -1;
@%p1 mbarrier.init.shared.b64 [%r3], 1;
fence.mbarrier_init.release.cluster;
ld.param.b64 %rd9, [map]; ld.param.b64 %rd1, [to]; ld.param.b64 %rd2, [out];
{change}
{acquire}
@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 1024;
@%p1 cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes
    [%r2], [%rd9, {{%r5, %r5}}], [%r3];
WAIT: mbarrier.try_wait.parity.shared.b64 %p0, [%r3], 0; @%p0 bra GO; bra WAIT;
GO: mov.b32 %r6, 0;
LOOP: add.s32 %r7, %r2, %r8; ld.shared.b32 %r9, [%r7]; add.s64 %rd3, %rd2, %rd8; st.global.b32 [%rd3], %r9;
add.s32 %r8, %r8, 128; add.s64 %rd8, %rd8, 128; setp.lt.u32 %p2, %r8, 1024; @%p2 bra LOOP;
ret;""",
    )
    old, new = np.zeros((16, 64), np.float32), np.arange(16 * 64, dtype=np.float32).reshape(16, 64)
    raw = aligned(np.frombuffer(tensor_map(old, (32, 8), 0), np.uint8))
    out = np.full((8, 32), 77, np.float32)
    launch(text, [raw, new, out], completion=completion, block=(threads, 1, 1))
    return out, new


GENERIC = "cvt.u64.u32 %rd10, %r4; cvta.shared.u64 %rd10, %rd10;" + re.sub(
    r"replace(\.tile\.\w+)\.shared::cta(\S+) +\[%r4\]", r"replace\1\2 [%rd10]", IN_SHARED
)
CHANGES = {
    "global": IN_GLOBAL,
    "shared": IN_SHARED,
    "generic to global": IN_GLOBAL.replace(".global.b1024", ".b1024"),
    "generic to shared": GENERIC,
}


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_map_is_used(change: str, completion: Completion) -> None:
    out, new = through_changed_map(change, ACQUIRE, completion)
    np.testing.assert_array_equal(out, np.concatenate([new[:5, :32], np.zeros((3, 32))]))


FIELDS = [
    ("rank", "", "b32", 1), ("box_dim", "0, ", "b32", 32), ("box_dim", "1, ", "b32", 8),
    ("global_dim", "0, ", "b32", 64), ("global_stride", "0, ", "b64", 256), ("element_stride", "0, ", "b32", 1),
    ("element_stride", "1, ", "b32", 1), ("elemtype", "", "b32", 7), ("interleave_layout", "", "b32", 0),
    ("swizzle_mode", "", "b32", 0), ("fill_mode", "", "b32", 0),
]  # fmt: skip
FROM_ZEROS = (
    "mov.b32 %r13, 0; add.s32 %r12, %r4, %r8; st.shared.b32 [%r12], %r13; bar.warp.sync -1; mov.b64 %rd5, 256;"
    + "".join(
        f"@%p1 tensormap.replace.tile.{field}.shared::cta.b1024.{kind} [%r4], {index}"
        + (f"{value};" if kind == "b32" else "%rd5;")
        for field, index, kind, value in FIELDS
    )
    + IN_SHARED.split("bar.warp.sync -1;", 1)[1]
)


@pytest.mark.parametrize("completion", MODES)
def test_a_map_of_zeros_becomes_a_tiled_one(completion: Completion) -> None:
    """A map of zeros works once every field is replaced, as Triton's kernels do."""
    out, new = through_changed_map(FROM_ZEROS, ACQUIRE, completion)
    np.testing.assert_array_equal(out, np.concatenate([new[:5, :32], np.zeros((3, 32))]))


@pytest.mark.parametrize("change", [IN_GLOBAL, IN_SHARED], ids=["global", "shared"])
def test_a_changed_map_must_be_acquired(change: str) -> None:
    with pytest.raises(errors.MissingProxyFence, match=r"missing +fence\.proxy\.tensormap::generic\.acquire"):
        through_changed_map(change, "")


TOLD_BY_A_FLAG = f"""
@%p1 st.shared.b32 [%r4], %r5; bar.sync 0; setp.ge.u32 %p3, %r1, 32; @%p3 bra SPIN;
{IN_GLOBAL} @%p1 st.ORDER.cta.shared::cta.b32 [%r4], %r10; exit;
SPIN: ld.acquire.cta.shared::cta.b32 %r13, [%r4]; setp.eq.u32 %p4, %r13, 0; @%p4 bra SPIN;
{ACQUIRE} sub.u32 %r1, %r1, 32; shl.b32 %r8, %r1, 2; cvt.u64.u32 %rd8, %r8;
"""


@pytest.mark.parametrize("completion", MODES)
def test_a_changed_map_must_be_acquired_after_its_change(completion: Completion) -> None:
    out, new = through_changed_map(TOLD_BY_A_FLAG.replace("ORDER", "release"), "", completion, threads=64)
    np.testing.assert_array_equal(out, np.concatenate([new[:5, :32], np.zeros((3, 32))]))
    with pytest.raises(errors.MissingProxyFence, match=r"acquire of it after the change"):
        through_changed_map(TOLD_BY_A_FLAG.replace("ORDER", "relaxed"), "", completion, threads=64)


RELEASE = "fence.proxy.tensormap::generic.release.gpu;"


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("change", [IN_GLOBAL.replace(RELEASE, ""), RELEASE + IN_GLOBAL.replace(RELEASE, "")])
def test_a_changed_map_must_be_released(change: str, completion: Completion) -> None:
    """The release is missing, or precedes the change."""
    with pytest.raises(errors.MissingProxyFence, match=r"missing +fence\.proxy\.tensormap::generic\.release"):
        through_changed_map(change, ACQUIRE, completion)


# small elements ------------------------------------------------------------------------------------------------------

PACKED, PADDED_4, PADDED_6 = 13, 14, 15
"""CUtensorMapDataType: 16U4_ALIGN8B, 16U4_ALIGN16B, 16U6_ALIGN16B."""


def small_map(address: int, kind: int, elements: tuple[int, int], stride: int, box: tuple[int, int]) -> bytes:
    sizes, strides = np.array(elements, np.uint64), np.array([stride], np.uint64)
    extents, steps = np.array(box, np.uint32), np.ones(2, np.uint32)
    a, b, c, d = (each.ctypes.data for each in (sizes, strides, extents, steps))
    return encode_tiled(kind, 2, address, a, b, c, d, 0, 0, 0, 0)


@pytest.mark.parametrize(("kind", "bits", "held"), [(PACKED, 4, 8), (PADDED_4, 4, 16), (PADDED_6, 6, 16)])
def test_small_elements(kind: int, bits: int, held: int) -> None:
    """Boxes of 128 elements by 4 rows at (128, 3) of 256 by 6. 16 elements take `held` bytes of shared memory."""
    row = 256 * bits // 8
    array = aligned(np.random.default_rng(0).integers(0, 256, (6, row), np.uint8))
    wanted = boxed(array, (row // 2, 4), (row // 2, 3)).reshape(4, 8, 2 * bits)
    wanted = np.pad(wanted, ((0, 0), (0, 0), (0, held - 2 * bits))).reshape(-1)
    raw = small_map(array.ctypes.data, kind, (256, 6), row, (128, 4))
    text = program(2, wanted.size).replace(f"_, [%r3], {wanted.size}", f"_, [%r3], {128 * 4 * bits // 8}")
    out = np.zeros(wanted.size, np.uint8)
    launch(text, [raw, raw, struct.pack("<5i", 128, 3, 0, 0, 0), out])
    np.testing.assert_array_equal(out, wanted)


def test_a_coordinate_inside_a_packed_word() -> None:
    array = aligned(np.zeros((6, 128), np.uint8))
    raw = small_map(array.ctypes.data, PADDED_4, (256, 6), 128, (128, 4))
    with pytest.raises(errors.DescriptorError, match="coordinate 8 of 16 packed elements"):
        launch(program(2, 512), [raw, raw, struct.pack("<5i", 8, 0, 0, 0, 0), np.zeros(512, np.uint8)])


BY_WARP_0 = f"""
setp.ge.u32 %p3, %r1, 32; @%p3 bra PAST; {IN_GLOBAL}
PAST: {{first}} {{then}} @!%p3 exit; sub.u32 %r1, %r1, 32; shl.b32 %r8, %r1, 2; cvt.u64.u32 %rd8, %r8;
"""


def test_one_warp_acquires_a_map_for_those_that_meet_it() -> None:
    acquire, meet = f"@!%p3 {ACQUIRE}", "bar.sync 0;"
    out, new = through_changed_map(BY_WARP_0.format(first=acquire, then=meet), "", threads=64)
    np.testing.assert_array_equal(out, np.concatenate([new[:5, :32], np.zeros((3, 32))]))
    with pytest.raises(errors.MissingProxyFence, match=r"after the change, before this in warp 1"):
        through_changed_map(BY_WARP_0.format(first=meet, then=acquire), "", threads=64)
