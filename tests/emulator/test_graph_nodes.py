"""Graphs that a program builds node by node: their results, and nodes without the edge that orders them."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence

import pytest

import emulator
from tests.emulator.test_stream_order import LOAD, LONG, STORE, TRIGGER, WAIT, Gpu, N, device, found, gpu

__all__ = ["device", "gpu"]
PROGRAMMATIC = struct.pack("<BBB5x", 1, 0, 1)
"""CUgraphEdgeData of an edge from a kernel's trigger."""


def handles(nodes: Sequence[int]) -> ctypes.Array[LONG]:
    return (LONG * max(len(nodes), 1))(*nodes)


class Nodes:
    """A graph of nodes that access `x`."""

    def __init__(self, gpu: Gpu) -> None:
        self._gpu, self.graph = gpu, gpu.new("cuGraphCreate", 0)

    def add(self, kind: str, before: Sequence[int], *parameters: object) -> int:
        return self._gpu.new(f"cuGraphAdd{kind}Node", self.graph, handles(before), len(before), *parameters)

    def kernel(self, body: str, before: Sequence[int] = ()) -> int:
        return self.add("Kernel", before, self.parameters(body))

    def parameters(self, body: str) -> bytes:
        self._given = (ctypes.POINTER(LONG) * 1)(ctypes.pointer(LONG(self._gpu.x)))
        sizes = (1, 1, 1, N, 1, 1, 0)
        return struct.pack("<Q7I4x4Q", self._gpu.kernel(body), *sizes, ctypes.addressof(self._given), 0, 0, 0)

    def memset(self, value: int, before: Sequence[int] = (), first: int = 0, words: int = N) -> int:
        given = struct.pack("<QQIIQQ", self._gpu.x + 4 * first, 0, value, 4, words, 1)
        return self.add("Memset", before, given, 0)

    def edge(self, first: int, second: int, kind: bytes | None = None) -> None:
        self._gpu.call("cuGraphAddDependencies_v2", self.graph, handles([first]), handles([second]), kind, 1)

    def launch(self, stream: int) -> int:
        made = self._gpu.new("cuGraphInstantiateWithFlags", self.graph, 0)
        self._gpu.call("cuGraphLaunch", made, stream)
        return made


def two_kernels(gpu: Gpu, ordered: bool) -> None:
    nodes = Nodes(gpu)
    first = nodes.kernel(STORE)
    nodes.kernel(LOAD, [first] * ordered)
    nodes.launch(gpu.stream())


def newer_first(gpu: Gpu, ordered: bool) -> None:
    """Let an edge lead from a node to an older one."""
    nodes = Nodes(gpu)
    reads, writes = nodes.kernel(LOAD), nodes.kernel(STORE)
    if ordered:
        nodes.edge(writes, reads)
    nodes.launch(gpu.stream())


def programmatic(gpu: Gpu, ordered: bool) -> None:
    nodes = Nodes(gpu)
    nodes.edge(nodes.kernel(TRIGGER + STORE), nodes.kernel((WAIT if ordered else "") + LOAD), PROGRAMMATIC)
    nodes.launch(gpu.stream())


def box(gpu: Gpu, to: int, words: int) -> bytes:
    """Return a copy of 2 planes of 2 rows of so many words; a row has 8 words, a plane 4 rows."""
    source, target = (struct.pack("<4Qi4xQQ2Q2Q", 0, 0, 0, 0, 2, 0, at, 0, 0, 32, 4) for at in (gpu.x, to))
    return source + target + struct.pack("<3Q", 4 * words, 2, 2)


def copied_box(gpu: Gpu, ordered: bool) -> None:
    """Fill two words of a row: those behind a copied box, or the last one in it too."""
    nodes, to = Nodes(gpu), gpu.allocate()
    nodes.add("Memcpy", [], box(gpu, to, 6), 0)
    gpu.x = to
    nodes.memset(5, first=32 + 8 + 6 - (not ordered), words=2)
    nodes.launch(gpu.stream())


def child(gpu: Gpu, ordered: bool) -> None:
    inner, outer = Nodes(gpu), Nodes(gpu)
    inner.memset(3)
    first = outer.add("ChildGraph", [], inner.graph)
    outer.kernel(LOAD, [outer.add("Empty", [first])] if ordered else [])
    outer.launch(gpu.stream())


def any_type(gpu: Gpu, ordered: bool) -> None:
    nodes = Nodes(gpu)
    first = nodes.memset(1)
    given = struct.pack("<i12x", 0) + nodes.parameters(LOAD)
    gpu.new("cuGraphAddNode_v2", nodes.graph, handles([first]), None, int(ordered), given.ljust(256, b"\0"))
    nodes.launch(gpu.stream())


def beside_itself(gpu: Gpu, ordered: bool) -> None:
    """Launch an executable graph twice, which CUDA orders, or two of one graph."""
    nodes, streams = Nodes(gpu), [gpu.stream() for _ in range(2)]
    nodes.memset(7)
    first = nodes.launch(streams[0])
    gpu.call("cuGraphLaunch", first, streams[1]) if ordered else nodes.launch(streams[1])


def freed(gpu: Gpu, ordered: bool) -> None:
    nodes, given = Nodes(gpu), ctypes.create_string_buffer(struct.pack("<104xQQ", 4 * N, 0), 120)
    made = nodes.add("MemAlloc", [], given)
    gpu.x = LONG.from_buffer(given, 112).value
    used = nodes.memset(1, [made])
    nodes.add("MemFree", [used if ordered else made], gpu.x)
    nodes.launch(gpu.stream())


def on_host(gpu: Gpu, ordered: bool) -> None:
    nodes, memory = Nodes(gpu), gpu.new("cuMemAllocHost_v2", 4 * N)
    write = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda at: ctypes.memset(at, 1, 4))
    first = nodes.add("Host", [], struct.pack("<QQ", ctypes.cast(write, ctypes.c_void_p).value or 0, memory))
    gpu.x = memory
    nodes.memset(2, [first] * ordered)
    nodes.launch(gpu.stream())


PROGRAMS: list[Callable[[Gpu, bool], None]] = [
    *(two_kernels, newer_first, programmatic, copied_box, child, any_type, beside_itself, freed, on_host),
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_nodes(program: Callable[[Gpu, bool], None], gpu: Gpu, device: emulator.EmulatedDevice) -> None:
    program(gpu, True)
    assert not found(device)
    gpu.call("cuCtxSynchronize")
    program(gpu, False)
    assert "not ordered after" in str(found(device)[0])


def test_values_of_nodes(gpu: Gpu, device: emulator.EmulatedDevice) -> None:
    """An executable graph keeps its nodes as they were, and may get others."""
    nodes, stream, word = Nodes(gpu), gpu.stream(), LONG()
    node = nodes.kernel(STORE)
    made = gpu.new("cuGraphInstantiateWithFlags", nodes.graph, 0)

    def launched() -> int:
        gpu.call("cuGraphLaunch", made, stream)
        gpu.call("cuStreamSynchronize", stream)
        gpu.call("cuMemcpyDtoH_v2", ctypes.byref(word), gpu.x, 8)
        return word.value & 0xFFFF_FFFF

    gpu.call("cuGraphKernelNodeSetParams_v2", node, nodes.parameters("mov.u32 %v, 8;" + STORE))
    assert launched() == 7
    gpu.call("cuGraphExecUpdate_v2", made, nodes.graph, ctypes.create_string_buffer(24))
    assert launched() == 8
    gpu.call("cuGraphExecKernelNodeSetParams_v2", made, node, nodes.parameters("mov.u32 %v, 9;" + STORE))
    assert launched() == 9
    assert not found(device)


def test_copies_of_boxes(gpu: Gpu, device: emulator.EmulatedDevice) -> None:
    to, read = gpu.allocate(), (ctypes.c_uint32 * N)()
    gpu.call("cuMemsetD32_v2", to, 0, N)
    gpu.run("mov.u32 %v, %i;" + STORE, 0)
    gpu.call("cuMemcpy3D_v2", box(gpu, to, 6))
    gpu.call("cuMemcpyDtoH_v2", read, to, 4 * N)
    assert list(read) == [i if i % 8 < 6 and i // 8 % 4 < 2 else 0 for i in range(N)]
    assert not found(device)
