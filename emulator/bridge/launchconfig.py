"""A launch as CUDA passes it: cudaLaunchConfig_t with its attributes, and an array of pointers to the parameters."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ..machine.launch.launch import Dim3

COOPERATIVE: Final = 2
PROGRAMMATIC: Final = 6
PROGRAMMATIC_EVENT: Final = 7
CLUSTER_DIMENSION: Final = 4
PREFERRED_CLUSTER: Final = 11
UNDERSTOOD: Final = frozenset(range(13)) | {14, 16, 17, 18}
"""Supported launch attributes: all but 13, a graph node that a device can update.

Most are hints. The event of a launch's completed start is not recorded.
"""
_ATTRIBUTE_BYTES: Final = 72
_VALUE_OFFSET: Final = 8


class _Config(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("dynamic_shared_bytes", ctypes.c_size_t),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("attribute_count", ctypes.c_uint),
    )


@dataclass(frozen=True)
class LaunchConfig:
    """The configuration of a launch.

    cluster: the preferred cluster shape if the grid is a multiple of it, else the regular one; None if neither is
    given. attributes: ids of the given launch attributes. cooperative: all CTAs must be resident at the same time.
    programmatic: it may start before the stream's previous launch has ended (programmatic dependent launch).
    values: id and bytes of each attribute. event: recorded when dependent launches may start, which is the start of
    all CTAs with event_at_start.
    """

    grid: Dim3
    block: Dim3
    cluster: Dim3 | None
    dynamic_shared_bytes: int
    attributes: tuple[int, ...]
    stream: int
    cooperative: bool = False
    values: tuple[tuple[int, bytes], ...] = ()
    programmatic: bool = False
    event: int = 0
    event_at_start: bool = False

    @classmethod
    def read(cls, address: int) -> LaunchConfig:
        """Read a cudaLaunchConfig_t or CUlaunchConfig, whose shared memory size has 32 bits."""
        raw = _Config.from_address(address)
        grid = _dim3(raw.grid)
        clusters: dict[int, Dim3] = {}
        ids = []
        values = []
        cooperative = programmatic = at_start = False
        event = 0
        for i in range(raw.attribute_count):
            at = raw.attributes + i * _ATTRIBUTE_BYTES
            ids.append(ctypes.c_int.from_address(at).value)
            values.append((ids[-1], ctypes.string_at(at + _VALUE_OFFSET, _ATTRIBUTE_BYTES - _VALUE_OFFSET)))
            if ids[-1] == COOPERATIVE:
                cooperative = ctypes.c_int.from_address(at + _VALUE_OFFSET).value != 0
            if ids[-1] == PROGRAMMATIC:
                programmatic = ctypes.c_int.from_address(at + _VALUE_OFFSET).value != 0
            if ids[-1] == PROGRAMMATIC_EVENT:
                event = ctypes.c_uint64.from_address(at + _VALUE_OFFSET).value
                at_start = ctypes.c_int.from_address(at + _VALUE_OFFSET + 12).value != 0
            if ids[-1] in (CLUSTER_DIMENSION, PREFERRED_CLUSTER):
                clusters[ids[-1]] = _dim3((ctypes.c_uint * 3).from_address(at + _VALUE_OFFSET))
        cluster = clusters.get(CLUSTER_DIMENSION)
        preferred = clusters.get(PREFERRED_CLUSTER)
        if preferred is not None and not any(g % c for g, c in zip(grid, preferred, strict=True)):
            cluster = preferred
        shared, stream = raw.dynamic_shared_bytes & 0xFFFF_FFFF, raw.stream or 0
        block, given = _dim3(raw.block), tuple(values)
        return cls(grid, block, cluster, shared, tuple(ids), stream, cooperative, given, programmatic, event, at_start)


def _dim3(values: ctypes.Array[ctypes.c_uint]) -> Dim3:
    x, y, z = values
    return x, y, z


class Arguments:
    """Copies of a launch's parameters. address: of the array of pointers to them, as long as this object lives."""

    def __init__(self, values: Sequence[bytes]) -> None:
        self._copies = [ctypes.create_string_buffer(value, len(value)) for value in values]
        self._array = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, self._copies))
        self.address = ctypes.addressof(self._array)


def values_at(address: int, sizes: Sequence[int]) -> list[bytes]:
    """Read the parameters of these sizes in bytes from the array of pointers at an address."""
    pointers = (ctypes.c_void_p * len(sizes)).from_address(address) if sizes else ()
    return [ctypes.string_at(pointer, size) for pointer, size in zip(pointers, sizes, strict=True)]
