"""tcgen05.cp in every shape: the row of shared memory for each lane, and small elements expanded to bytes."""

from __future__ import annotations

import re

import numpy as np
import pytest
from ptx_launch import launch
from test_tcgen05_mma import BASE, WINDOW, program

from emulator import errors

COLUMNS, AT = 32, 8
TMEM_LANES = np.arange(128)
ROWS = {
    # shape: the row of each lane (-1: none), 16-byte chunks of a row
    "128x256b": (TMEM_LANES, 2),
    "128x128b": (TMEM_LANES, 1),
    "4x256b": (np.where(TMEM_LANES % 32 == 0, TMEM_LANES // 32, -1), 2),
    "64x128b.warpx2::02_13": (TMEM_LANES % 64, 1),
    "64x128b.warpx2::01_23": (TMEM_LANES % 32 + 32 * (TMEM_LANES // 64), 1),
    "32x128b.warpx4": (TMEM_LANES % 32, 1),
}


def copying(form: str, at: int = AT, stride: int = 256, leading: int = 128) -> str:
    """Return the program of test_tcgen05_mma with a copy from the window's start in place of its MMAs."""
    descriptor = BASE >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | 1 << 46
    text = re.sub(r"@%p1 tcgen05\.mma[^;]*;", "", program("e4m3", 0, 0, 0, 128, COLUMNS))
    copy = f"mov.b64 %rd6, {descriptor:#x}; add.s32 %r20, %r5, {at}; @%p1 tcgen05.cp.cta_group::1.{form} [%r20], %rd6;"
    return text.replace("mov.b64 %rd4", copy + "\nmov.b64 %rd4")


def copied(image: np.ndarray, form: str, at: int = AT, stride: int = 256, leading: int = 128) -> np.ndarray:
    """Return tensor memory after such a copy: uint32[columns, lanes], zero where nothing was written."""
    out = np.zeros((COLUMNS, 128), np.uint32)
    launch(copying(form, at, stride, leading), [image, out], block=(128, 1, 1))
    return out


def chunks(image: np.ndarray, count: int) -> np.ndarray:
    """Return the 16-byte chunks of row r, [128, count, 16]. Core matrices are 256 bytes apart down, 128 across."""
    r, c = TMEM_LANES[:, None], np.arange(count)[None]
    return image[(r % 8 * 16 + r // 8 * 256 + c * 128)[..., None] + np.arange(16)]


@pytest.mark.parametrize("shape", ROWS)
def test_shapes(shape: str) -> None:
    image = np.random.default_rng(0).integers(0, 256, WINDOW, np.uint8)
    rows, count = ROWS[shape]
    cells = chunks(image, count).reshape(128, -1).view(np.uint32)
    wanted = np.zeros((COLUMNS, 128), np.uint32)
    wanted[AT : AT + 4 * count, rows >= 0] = cells[rows[rows >= 0]].T
    np.testing.assert_array_equal(copied(image, shape), wanted)


@pytest.mark.parametrize(("source", "bits", "shift"), [("b4x16_p64", 4, 2), ("b6x16_p32", 6, 1)])
def test_small_elements_stand_in_the_middle_of_their_bytes(source: str, bits: int, shift: int) -> None:
    image = np.random.default_rng(1).integers(0, 256, WINDOW, np.uint8)
    packed = chunks(image, 2)[..., : 2 * bits]
    numbers = [int.from_bytes(bytes(p), "little") for p in packed.reshape(-1, 2 * bits)]
    codes = np.array([[n >> bits * i & (1 << bits) - 1 for i in range(16)] for n in numbers], np.uint8)
    cells = np.ascontiguousarray((codes << shift).reshape(128, 32)).view(np.uint32)
    np.testing.assert_array_equal(copied(image, f"128x256b.b8x16.{source}")[AT : AT + 8], cells.T)


@pytest.mark.parametrize(
    ("form", "at", "error", "says"),
    [
        ("128x128b", 30, errors.TensorMemoryError, "columns 30 to 33"),
        ("128x128b", 1 << 16, errors.DescriptorError, "lane 1 in the address"),
        ("64x128b", 0, errors.UnknownInstruction, "64x128b"),
        ("32x128b.warpx4.b8x16", 0, errors.UnknownInstruction, "b8x16"),
    ],
)
def test_refused(form: str, at: int, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        copied(np.zeros(WINDOW, np.uint8), form, at)


def test_the_source_stays_in_the_window() -> None:
    with pytest.raises(errors.OutOfBounds, match=r"the source of tcgen05\.cp"):
        copied(np.zeros(WINDOW, np.uint8), "128x128b", stride=8192)


def test_an_eager_copy_is_done_before_its_commit() -> None:
    """A reader without the commit is an error, and finds the rows all the same."""
    image = np.random.default_rng(0).integers(0, 256, WINDOW, np.uint8)
    text, out = copying("128x128b"), np.zeros((COLUMNS, 128), np.uint32)
    found: list[errors.Fault] = []
    commit = "@%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r11];"
    assert commit in text
    text = text.replace(commit, "@%p1 mbarrier.arrive.shared.b64 _, [%r11];")
    launch(text, [image, out], block=(128, 1, 1), completion="eager", diagnostics="report", findings=found)
    np.testing.assert_array_equal(out[AT : AT + 4], chunks(image, 1).reshape(128, 16).view(np.uint32).T)
    assert {type(fault) for fault in found} == {errors.MissingWait}
    assert all("tcgen05.commit" in str(fault) for fault in found)


def copying_nothing() -> str:
    text = copying("128x128b").replace(f"expect_tx.shared.b64 _, [%r10], {WINDOW}", "expect_tx.shared.b64 _, [%r10], 0")
    return re.sub(r"@%p1 cp\.async\.bulk[^;]*;", "", text)


def test_a_copy_of_what_nothing_wrote_may_stay_unread() -> None:
    """Gluon's pipelines copy scale factors ahead for an MMA that is then skipped."""
    zeros = "".join(
        f"add.s32 %r7, %r6, {AT + i}; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r7], {{%r9}};" for i in range(4)
    )
    text, out = (
        copying_nothing().replace("OUT:", f"OUT: {zeros} tcgen05.wait::st.sync.aligned;"),
        np.ones((COLUMNS, 128)),
    )
    launch(text, [np.zeros(WINDOW, np.uint8), out.astype(np.uint32)], block=(128, 1, 1))


@pytest.mark.parametrize("completion", ["lazy", "eager", "random"])
def test_a_copy_of_unwritten_bytes_is_reported_where_it_is_read(completion) -> None:
    with pytest.raises(errors.UnwrittenRead, match=f"columns {AT} to {AT + 3}, .*which nothing wrote") as found:
        arguments = [np.zeros(WINDOW, np.uint8), np.zeros((COLUMNS, 128), np.uint32)]
        launch(copying_nothing(), arguments, block=(128, 1, 1), completion=completion)
    assert re.search(r"copied at +PTX line \d+: @%p1 tcgen05\.cp.*\n +from shared memory 0x", str(found.value))
