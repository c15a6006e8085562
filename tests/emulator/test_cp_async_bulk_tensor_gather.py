"""TMA of four rows that are not contiguous: tile::gather4 and tile::scatter4."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from ptx_launch import launch
from test_cp_async_bulk_tensor import SWIZZLES, program, tensor_map

from emulator import errors
from emulator.machine.order.completion import Completion

MODES = ("eager", "lazy", "random")
ROWS = 12
CASES = [
    # dtype, elements of a row of the box, column, rows, swizzle
    ("f4", 32, 0, (7, 0, 3, 3), 0),
    ("f4", 32, 16, (11, 2, 5, 8), 3),
    ("u2", 16, 32, (1, 10, 4, 0), 1),
    ("u2", 32, 8, (9, 9, 9, 1), 2),
    ("f4", 32, 48, (12, 3, -1, 100), 3),
    ("u1", 64, -32, (5, 1, 2, 0), 0),
    ("f4", 32, 64, (0, 1, 2, 3), 0),
]


def rows_of(array: np.ndarray, column: int, width: int, rows: tuple[int, ...]) -> np.ndarray:
    """Return the rows [4, width], zero outside of the array."""
    out = np.zeros((4, width), array.dtype)
    for i, row in enumerate(rows):
        for j in range(width):
            if 0 <= row < ROWS and 0 <= column + j < array.shape[1]:
                out[i, j] = array[row, column + j]
    return out


def gathering(size: int, out: str = "") -> str:
    """Return the program of test_cp_async_bulk_tensor with a gather for its load."""
    text = program(5, size, out).replace(".5d.shared::cta.global.tile.", ".2d.shared::cta.global.tile::gather4.")
    assert "gather4" in text
    return text


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize(("dtype", "width", "column", "rows", "swizzle"), CASES)
def test_gather(
    dtype: str, width: int, column: int, rows: tuple[int, ...], swizzle: int, completion: Completion
) -> None:
    array = (np.arange(ROWS * 64) % 251 + 1).astype(dtype).reshape(ROWS, 64)
    expected = rows_of(array, column, width, rows).reshape(-1).view(np.uint8)
    raw, out = tensor_map(array, (width, 1), swizzle), np.zeros(expected.size, np.uint8)
    launch(gathering(out.size), [raw, raw, struct.pack("<5i", column, *rows), out], completion=completion)
    if (pattern := SWIZZLES[swizzle]) is not None:
        expected = expected[[pattern(i) for i in range(expected.size)]]
    np.testing.assert_array_equal(out, expected)


SCATTER = """
fence.proxy.async.shared::cta;
@%p1 cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%rd6, COORDINATES], [%r2];
@%p1 cp.async.bulk.commit_group;
@%p1 cp.async.bulk.wait_group 0;"""


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize(("dtype", "width", "column", "rows", "swizzle"), [c for c in CASES if len({*c[3]}) == 4])
def test_scatter(
    dtype: str, width: int, column: int, rows: tuple[int, ...], swizzle: int, completion: Completion
) -> None:
    """Gathered rows are scattered to the same rows of another array. Rows outside of it are dropped."""
    array = (np.arange(ROWS * 64) % 251 + 1).astype(dtype).reshape(ROWS, 64)
    target = np.zeros_like(array)
    expected = target.copy()
    for row in rows:
        if 0 <= row < ROWS:
            inside = slice(max(column, 0), min(column + width, 64))
            expected[row, inside] = array[row, inside]
    maps = [tensor_map(x, (width, 1), swizzle) for x in (array, target)]
    text = gathering(4 * width * array.itemsize, SCATTER)
    launch(text, [*maps, struct.pack("<5i", column, *rows), target], completion=completion)
    np.testing.assert_array_equal(target, expected)


def test_a_box_has_one_row() -> None:
    array = np.zeros((ROWS, 64), np.float32)
    raw = tensor_map(array, (32, 4), 0)
    with pytest.raises(errors.DescriptorError, match=r"a box of 1 row; here are 5 coordinates and a box of \(32, 4\)"):
        launch(gathering(512), [raw, raw, bytes(20), array])


def test_rows_are_read_when_the_store_completes() -> None:
    """The program overwrites shared memory before it waits for the group."""
    array = np.zeros((ROWS, 64), np.float32)
    raw = tensor_map(array, (32, 1), 0)
    early = SCATTER.replace("@%p1 cp.async.bulk.wait_group 0;", "bar.warp.sync -1; st.shared.b32 [%r2+384], %r1;")
    with pytest.raises(errors.MissingWait, match=r"cp\.async\.bulk\.wait_group"):
        launch(gathering(512, early), [raw, raw, struct.pack("<5i", 0, 1, 2, 3, 4), array])
