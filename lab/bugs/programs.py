"""The programs of the corpus: their launches, inputs and expected outputs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from emulator.bridge.tensormap import encode_tiled

HERE: Final = Path(__file__).parent
MARK: Final = re.compile(r"// @(fix|bug) (\w+)$")
FLOAT32, TMA_BYTES = 7, 128
Arrays = list[np.ndarray]


@dataclass(frozen=True)
class Program:
    """A correct program. inputs: makes all arguments but the last; expected: computes the output."""

    threads: int
    inputs: Callable[[], Arrays]
    expected: Callable[[Arrays], np.ndarray]
    ctas: int = 1
    cluster: bool = False


def text(program: str, bug: str | None = None) -> str:
    """Return the PTX of a program without a bug, or with one. Lines keep their numbers."""
    lines = []
    for line in (HERE / f"{program}.ptx").read_text().splitlines():
        mark = MARK.search(line)
        dropped = mark is not None and (mark[1] == "fix") == (mark[2] == bug)
        lines.append("" if dropped else line)
    return "\n".join(lines)


def bugs_of(program: str) -> set[str]:
    """Return the names of the bugs that the lines of a program are marked with."""
    found = map(MARK.search, (HERE / f"{program}.ptx").read_text().splitlines())
    return {mark[2] for mark in found if mark is not None}


def words(count: int) -> Callable[[], Arrays]:
    """Return a maker of one array of distinct words."""
    return lambda: [np.arange(count, dtype=np.uint32) * 7 + 3]


def matrices(rows: int, columns: int, tiles: int = 1) -> Callable[[], Arrays]:
    """Return a maker of A [tiles, rows, 16] and B [columns, 16], small integers in bf16, as 8x8 core matrices."""

    def make() -> Arrays:
        rng = np.random.default_rng(0)
        a, b = rng.integers(-4, 5, (tiles * rows, 16)), rng.integers(-4, 5, (columns, 16))
        return [_core_matrices(a), _core_matrices(b)]

    return make


def _core_matrices(values: np.ndarray) -> np.ndarray:
    bits = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return np.ascontiguousarray(bits.reshape(-1, 8, 2, 8).transpose(0, 2, 1, 3))


def _rows(core: np.ndarray) -> np.ndarray:
    """Return core matrices as float32[rows, 16]."""
    bits = core.transpose(0, 2, 1, 3).reshape(-1, 16)
    return (bits.astype(np.uint32) << 16).view(np.float32)


def product(arrays: Arrays) -> np.ndarray:
    """Return A B'."""
    return _rows(arrays[0]) @ _rows(arrays[1]).T


def _sum_of_tiles(arrays: Arrays) -> np.ndarray:
    return product(arrays).reshape(3, 128, 16).sum(0)


def _columns(columns: list[int]) -> Callable[[Arrays], np.ndarray]:
    return lambda arrays: 3 * product(arrays)[:, columns]


def _prefix(arrays: Arrays) -> np.ndarray:
    """Return the count of sums that are not above each of 128 numbers; of 64 sums the search counts 63 at most."""
    return np.minimum(np.searchsorted(arrays[0], np.arange(128), "right"), 63).astype(np.uint32)


def _boxes() -> Arrays:
    groups = np.arange(2 * 8 * 32, dtype=np.float32).reshape(2, 8, 32)
    sizes, strides = np.array([32, 8], np.uint64), np.array([128], np.uint64)
    extents, steps = np.array([32, 8], np.uint32), np.ones(2, np.uint32)
    a, b, c, d = (each.ctypes.data for each in (sizes, strides, extents, steps))
    raw = encode_tiled(FLOAT32, 2, groups.ctypes.data, a, b, c, d, 0, 0, 0, 0)
    buffer = np.zeros(TMA_BYTES + 64, np.uint8)
    start = -buffer.ctypes.data % 64
    buffer[start : start + TMA_BYTES] = np.frombuffer(raw, np.uint8)
    return [buffer[start : start + TMA_BYTES], groups]


def _zeros(count: int) -> Callable[[], Arrays]:
    return lambda: [np.zeros(count, np.uint32)]


def _ones(count: int) -> Callable[[Arrays], np.ndarray]:
    return lambda arrays: np.ones(count, np.uint32)


def _quarters(arrays: Arrays) -> np.ndarray:
    return arrays[0][:, None] + np.arange(1, 17, dtype=np.uint32)


def _reused(arrays: Arrays) -> np.ndarray:
    """Return the values that each of four CTAs received by multicast, and then from the previous CTA."""
    swapped = arrays[0].reshape(-1, 2)[:, ::-1].reshape(-1)
    return np.stack([np.stack([arrays[0], swapped + np.uint32((rank - 1) % 4)]) for rank in range(4)])


def _loop_back(arrays: Arrays) -> np.ndarray:
    tiles = arrays[0].reshape(3, 2, 32)
    return (2 * tiles + tiles[:, ::-1]).astype(np.uint32)


PROGRAMS: Final = {
    "release": Program(192, matrices(128, 16), _columns([0, 1, 2, 3])),
    "alias": Program(160, matrices(128, 16), _columns([0, 1, 4, 5])),
    "warps_of_a_quarter": Program(256, words(128), _quarters),
    "pair_operands": Program(192, matrices(256, 16), product, 2, True),
    "mailbox": Program(32, words(64), lambda a: np.tile(a[0][:32] + a[0][32:], 2), 2, True),
    "scratch": Program(128, words(256), lambda a: np.repeat(a[0].reshape(2, 128).sum(1), 128).astype(np.uint32)),
    "pair_allocation": Program(32, lambda: [], lambda a: np.zeros(2, np.uint32), 2, True),
    "columns_of_no_tile": Program(64, _zeros(1), lambda a: a[0]),
    "handshake": Program(96, words(256), lambda a: 2 * a[0]),
    "spectator": Program(96, words(128), lambda a: a[0] + 1),
    "tail": Program(96, words(96), lambda a: a[0] + 1),
    "group_barrier": Program(
        64, lambda: [*words(128)(), *_zeros(160)()], lambda a: np.tile(a[0][:64] + a[0][64:], 2), 2
    ),
    "counter_reset": Program(32, _zeros(2), _ones(2), 2),
    "counter_init": Program(32, _zeros(1), _ones(2), 2),
    "load_warp": Program(64, words(32), lambda a: a[0].reshape(-1, 2)[:, ::-1].reshape(-1)),
    "staging": Program(64, words(192), lambda a: a[0]),
    "ring_of_stores": Program(64, words(256), lambda a: a[0] + 1),
    "state_store": Program(64, words(64), lambda a: a[0] + 1),
    "flag_loop": Program(128, lambda: [], lambda a: np.array([4], np.uint32)),
    "prefix": Program(128, lambda: [np.arange(64, dtype=np.uint32) * 2 + 1], _prefix),
    "clear": Program(64, words(64), lambda a: np.concatenate([np.roll(a[0], 32), np.zeros(64, np.uint32)])),
    "tail_threads": Program(64, words(48), lambda a: a[0][::-1]),
    "loop_back": Program(64, words(192), _loop_back),
    "multicast_reuse": Program(32, words(32), _reused, 4, True),
    "rendezvous": Program(32, lambda: [], lambda a: np.array([7], np.uint32), 2, True),
    "leaves_first": Program(32, words(64), lambda a: np.roll(a[0], 32), 2, True),
    "first_use": Program(64, words(64), lambda a: np.roll(a[0], 32)),
    "bytes_of_a_cluster": Program(32, words(64), lambda a: np.tile(a[0][:32] + a[0][32:], 4), 4, True),
    "operands": Program(160, matrices(128, 16, 3), _sum_of_tiles),
    "grouped": Program(32, _boxes, lambda a: a[1]),
}
