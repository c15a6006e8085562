"""tcgen05.shift: rows move by one lane, ordered with other tensor core operations, complete with the commit."""

from __future__ import annotations

import numpy as np
import pytest
from tensor_program import BASE, WINDOW, after, program
from test_tcgen05_mma_forms import (
    A_COLUMN,
    B_AT,
    descriptor,
    initial,
    issue,
    numbers,
    operand,
    packed,
    put,
    result_type,
    setup,
)
from test_tcgen05_mma_pair import laid_out

from emulator import errors
from emulator.machine.order.completion import Completion

SHIFT = "@%p1 tcgen05.shift.cta_group::{}.down [%r20];\n"
MODES = ("eager", "lazy", "random")


def moved(state: np.ndarray, column: int) -> np.ndarray:
    """Return the expected rows: row r has the old row r + 1, except the last of every 32, in 8 columns."""
    expected = state.copy()
    for row in range(128):
        if row % 32 != 31:
            expected[:, column : column + 8, row] = state[:, column : column + 8, row + 1]
    return expected


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("column", [0, 24, 120])
@pytest.mark.parametrize("ctas", [1, 2])
def test_rows_move_by_one(ctas: int, column: int, completion: Completion) -> None:
    state = initial(ctas)
    act = setup(("%r20", column)) + SHIFT.format(ctas)
    got = after(act, np.zeros((ctas, WINDOW), np.uint8), state, completion=completion)
    np.testing.assert_array_equal(got, moved(state, column))


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize(("m", "ctas"), [(128, 1), (256, 2), (128, 2)])
@pytest.mark.parametrize("kind", ["bf16", "tf32", "s8"])
def test_a_is_shifted_after_the_product(kind: str, m: int, ctas: int, completion: Completion) -> None:
    """Two MMAs of the same operands: the second one reads the rows of A shifted by one."""
    n, rows = 32, m // ctas
    a, b = numbers(m, kind), numbers(n, kind)
    image, state = np.zeros((ctas, WINDOW), np.uint8), initial(ctas, result_type(kind))
    for cta in range(ctas):
        per = n // ctas
        b_at = put(image[cta], operand(kind, per, False, "64B", B_AT), b[cta * per :][:per], kind)
        words = np.tile(packed(a[cta * rows :][:rows], kind), 128 // rows)
        state.view(np.uint32)[cta, A_COLUMN : A_COLUMN + 8] = words
    cells = moved(state, A_COLUMN)
    shifted = a.copy()
    for row in range(m):
        if row % 32 != 31:
            shifted[row] = a[row + 1]
    new = (a + shifted) @ b.T
    new = new.T[None] if ctas == 1 else laid_out(new)
    cells[:, : new.shape[1]] += new.astype(state.dtype)
    idesc = descriptor(kind, m, n)
    act = "".join(
        issue(kind, 0, f"{A_COLUMN:#x}", b_at, idesc, f"cta_group::{ctas}.KIND{shift}") for shift in (".ashift", "")
    )
    np.testing.assert_array_equal(after(act, image, state, completion=completion), cells)


def test_ashift_has_128_rows() -> None:
    act = issue("bf16", 0, "0x40", 64 | 1 << 46, descriptor("bf16", 64, 32), "cta_group::1.KIND.ashift")
    with pytest.raises(errors.DescriptorError, match=r"M=64 with \.ashift; allowed is M 128, 256"):
        after(act, np.zeros((1, WINDOW), np.uint8), initial())


@pytest.mark.parametrize("completion", MODES)
def test_a_window_that_slides_over_the_rows(completion: Completion) -> None:
    """Multiply, shift all rows, reload the last of every 32 lanes from shared memory, multiply again onto the sum."""
    kind, n, a_column = "bf16", 32, 96
    rows, b, image = numbers(129, kind), numbers(n, kind), np.zeros((1, WINDOW), np.uint8)
    b_at = put(image[0], operand(kind, n, False, "128B", B_AT), b, kind)
    fresh = packed(rows[[32, 64, 96, 128]], kind).T.copy().view(np.uint8)  # 4 rows of two 16-byte chunks
    for row in range(4):
        for chunk in range(2):
            image[0, 16 * row + 128 * chunk :][:16] = fresh[row, 16 * chunk : 16 * chunk + 16]
    state = initial()
    state.view(np.uint32)[0, a_column : a_column + 8] = packed(rows[:128], kind)
    expected = state[0, :n] + b @ rows[:128].T + b @ rows[1:].T
    multiply = issue(kind, 0, f"{a_column:#x}", b_at, descriptor(kind, 128, n))
    shift = setup(("%r20", a_column)) + SHIFT.format(1)
    source = BASE >> 4 | 128 >> 4 << 16 | 256 >> 4 << 32 | 1 << 46
    refresh = setup(("%r20", 31 << 16 | a_column), ("%rd12", source)) + (
        "@%p1 tcgen05.cp.cta_group::1.4x256b [%r20], %rd12;\n"
    )
    got = after(multiply + shift + refresh + multiply, image, state, completion=completion)
    np.testing.assert_array_equal(got[0, :n], expected)
    np.testing.assert_array_equal(got.view(np.uint32)[0, a_column : a_column + 8], packed(rows[1:], kind))


@pytest.mark.parametrize("lane", [16, 32])
def test_other_lanes_are_refused(lane: int) -> None:
    with pytest.raises(errors.DescriptorError, match=f"lane {lane} in the address .*: only a shift from lane 0"):
        after(setup(("%r20", lane << 16)) + SHIFT.format(1), np.zeros((1, WINDOW), np.uint8), initial())


def test_lanes_beyond_the_last_are_ignored() -> None:
    act, image, state = setup(("%r20", 128 << 16)) + SHIFT.format(1), np.zeros((1, WINDOW), np.uint8), initial()
    plain = setup(("%r20", 0)) + SHIFT.format(1)
    np.testing.assert_array_equal(after(act, image, state), after(plain, image, state))
    with pytest.raises(errors.OutOfBounds, match="names lane 128 of tensor memory, which has 128"):
        after(act, image, state, level=errors.Level.PEDANTIC)


def test_columns_must_be_allocated() -> None:
    with pytest.raises(errors.TensorMemoryError, match="columns 124 to 131"):
        after(setup(("%r20", 124)) + SHIFT.format(1), np.zeros((1, WINDOW), np.uint8), initial())


def test_without_a_commit_nobody_may_look() -> None:
    act = setup(("%r20", 0)) + SHIFT.format(1)
    text = program(act, 128, 1).replace("@%p1 tcgen05.commit", "@%p1 mbarrier.arrive.shared.b64 _, [%r11];\n//")
    with pytest.raises(errors.MissingWait, match=r"tcgen05\.commit by warp 0 .* after PTX line"):
        after(act, np.zeros((1, WINDOW), np.uint8), initial(), text=text)


def test_a_direction_is_named() -> None:
    with pytest.raises(errors.UnknownInstruction, match=r"missing .cta_group or \.down"):
        after("@%p1 tcgen05.shift.cta_group::1 [%r20];", np.zeros((1, WINDOW), np.uint8), initial())
