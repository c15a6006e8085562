"""Graphs that a program builds node by node: the driver's functions, and those of the runtime with the same arguments.

To make a node, the function of the same operation is called with a stream that stands for the graph (`GRAPH`).
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

from ..bridge.driver import put
from ..bridge.launchconfig import LaunchConfig
from . import code
from .c_library import LONG
from .captures import Graph, new_handle
from .errors import INVALID_VALUE, CudaError, not_emulated
from .memory import Kind
from .state import Box, DriverState

_KERNEL: Final = struct.Struct("<Q7I4xQQ")
_MEMSET: Final = struct.Struct("<QQIIQQ")
_BOX_OF_RUNTIME: Final = struct.Struct("<19Qi4x")
_BOX_OF_DRIVER: Final = struct.Struct("<4Qi4x3Q8xQQ4Qi4x3Q8xQQ3Q")
_ROWS_OF_DRIVER: Final = struct.Struct("<2Qi4x4Q2Qi4x4Q2Q")
_HOST_MEMORY: Final = 1
_ALLOCATED_BYTES, _ALLOCATED_AT = 104, 112
"""Offsets in CUDA_MEM_ALLOC_NODE_PARAMS."""
_PARAMETERS_OF_ANY: Final = 16
"""The offset of a node's own parameters in CUgraphNodeParams."""
_COPY_OF_ANY: Final = 16
"""The offset of the copied box in them."""

Submit = Callable[[int], object]
Copied = tuple[Box, Box, tuple[int, int, int], Kind]
"""The destination and the source of a copy, bytes of a row, rows and planes, and the direction."""


class Driver(Protocol):
    """The functions of the driver that nodes call."""

    @property
    def session(self) -> DriverState: ...
    def call_host(self, stream: int, function: int, data: int) -> None: ...
    def launch_graph(self, graph: int, stream: int) -> None: ...


class GraphNodes:
    """The functions that make and change nodes.

    kernel_of: returns the handle of a kernel that a program names. box_of: reads the parameters of a 3D copy.
    functions: by name, without a prefix. versioned: those of them that the driver has as second version only.
    """

    versioned = ("GraphAddNode", "GraphAddDependencies")

    def __init__(self, driver: Driver, kernel_of: Callable[[int], int], box_of: Callable[[int], Copied]) -> None:
        self._driver, self._kernel_of, self._box_of = driver, kernel_of, box_of
        kinds: dict[str, Callable[..., object]] = {
            **{"Kernel": self.kernel, "Memset": self.memset, "Host": self.host, "ChildGraph": self.child},
            **{"Empty": self.empty, "EventRecord": self.record, "EventWait": self.wait},
            **{"MemAlloc": self.allocate, "MemFree": self.free, "Memcpy": self.copy},
        }
        self.functions: dict[str, Callable[..., Any]] = {
            **{f"GraphAdd{kind}Node": partial(self.make, submit) for kind, submit in kinds.items()},
            "GraphAddNode": self.make_any,
            "GraphAddDependencies": self.add_edges,
            "GraphCreate": self.create,
            "GraphClone": lambda made, graph: put(made, LONG, driver.session.captures.copied(graph)),
            "GraphExecUpdate": self.update,
            "GraphKernelNodeSetParams": partial(self.change, None),
            "GraphExecKernelNodeSetParams": self.change,
        }

    # Graphs

    def create(self, graph: int, _flags: int) -> None:
        made = Graph()
        self._driver.session.captures.graphs[made.handle] = made
        put(graph, LONG, made.handle)

    def update(self, executable: int, graph: int, result: int) -> None:
        captures = self._driver.session.captures
        captures.graph(executable).nodes[:] = captures.graph(graph).copy().nodes
        ctypes.memset(result, 0, 24)

    def change(self, executable: int | None, node: int, parameters: int) -> None:
        """Give a kernel node other parameters, in its graph or in an executable graph."""
        graph, number = self._node(node)
        into = graph if executable is None else self._driver.session.captures.graph(executable)
        made = self._driver.session.captures.add_node(Graph(), 0, 0, partial(self.kernel, parameters))
        into.nodes[number].work = made.work

    def add_edges(self, _graph: int, first: int, second: int, kinds: int, count: int) -> None:
        """Add edges between nodes. kinds: the address of their CUgraphEdgeData, 0 for ordinary edges."""
        for i in range(count):
            graph, before = self._node(LONG.from_address(first + 8 * i).value)
            _, after = self._node(LONG.from_address(second + 8 * i).value)
            graph.nodes[after].after |= 1 << before
            graph.nodes[after].early |= _is_early(kinds, i) << before

    def _node(self, handle: int) -> tuple[Graph, int]:
        nodes = self._driver.session.captures.nodes
        if handle not in nodes:
            raise CudaError(INVALID_VALUE)
        return nodes[handle]

    # Nodes

    def make(self, submit: Callable[..., object], node: int, graph: int, before: int, count: int, *given: int) -> None:
        """Add a node. submit: submits its operation, given its parameters and a stream."""
        self._add(partial(submit, *given[:1]) if given else submit, node, graph, before, 0, count)

    def make_any(self, node: int, graph: int, before: int, edges: int, count: int, parameters: int) -> None:
        """Add a node of any type."""
        kind, own = ctypes.c_int.from_address(parameters).value, parameters + _PARAMETERS_OF_ANY
        word = LONG.from_address(own).value
        known: dict[int, Submit] = {
            0: partial(self.kernel, own),
            1: partial(self.copy, own + _COPY_OF_ANY),
            2: partial(self.memset, own),
            3: partial(self.host, own),
            4: partial(self.child, word),
            5: self.empty,
            6: partial(self.wait, word),
            7: partial(self.record, word),
            10: partial(self.allocate, own),
            11: partial(self.free, word),
        }
        if kind not in known:
            raise not_emulated(f"a graph node of type {kind}", "cuGraphAddNode makes kernel, memset and host nodes")
        self._add(known[kind], node, graph, before, edges, count)

    def _add(self, submit: Submit, node: int, graph: int, before: int, edges: int, count: int) -> None:
        captures, after, early = self._driver.session.captures, 0, 0
        for i in range(count):
            _, number = self._node(LONG.from_address(before + 8 * i).value)
            after |= 1 << number
            early |= _is_early(edges, i) << number
        into = captures.graph(graph)
        captures.add_node(into, after, early, submit)
        handle = new_handle()
        captures.nodes[handle] = into, len(into.nodes) - 1
        put(node, LONG, handle)

    def kernel(self, parameters: int, stream: int) -> None:
        function, *sizes, shared, arguments, extra = _KERNEL.unpack(ctypes.string_at(parameters, _KERNEL.size))
        x, y, z, bx, by, bz = sizes
        config = LaunchConfig((x, y, z), (bx, by, bz), None, shared, (), stream)
        code.launch(self._kernel_of(function), config, arguments, extra)

    def memset(self, parameters: int, stream: int) -> None:
        to, pitch, value, size, width, height = _MEMSET.unpack(ctypes.string_at(parameters, _MEMSET.size))
        self._driver.session.fill(to, pitch, value, size, width, height, stream)

    def host(self, parameters: int, stream: int) -> None:
        self._driver.call_host(stream, *(LONG.from_address(parameters + at).value for at in (0, 8)))

    def child(self, graph: int, stream: int) -> None:
        self._driver.launch_graph(self._driver.session.captures.copied(graph), stream)

    def empty(self, stream: int) -> None:
        self._driver.session.captures.submit(stream, lambda: None)

    def record(self, event: int, stream: int) -> None:
        session = self._driver.session
        session.captures.submit(stream, lambda: session.record(event, stream))

    def wait(self, event: int, stream: int) -> None:
        session = self._driver.session
        session.captures.submit(stream, lambda: session.order.wait(stream, event))

    def copy(self, parameters: int, stream: int) -> None:
        to, source, size, kind = self._box_of(parameters)
        self._driver.session.copy_box(to, source, size, kind, stream)

    def allocate(self, parameters: int, stream: int) -> None:
        size = LONG.from_address(parameters + _ALLOCATED_BYTES).value
        put(parameters + _ALLOCATED_AT, LONG, self._driver.session.allocate_in_order(size, stream))

    def free(self, pointer: int, stream: int) -> None:
        self._driver.session.free(pointer, "cudaGraphAddMemFreeNode", stream)


def _is_early(edges: int, i: int) -> int:
    """Return 1 if an edge leads from a kernel's trigger (a programmatic port), not from its end."""
    return int(bool(edges) and ctypes.c_ubyte.from_address(edges + 8 * i).value != 0)


def box_of_driver(given: int) -> Copied:
    """Read a CUDA_MEMCPY3D."""
    values = _BOX_OF_DRIVER.unpack(ctypes.string_at(given, _BOX_OF_DRIVER.size))
    source, to = (_end(*values[at : at + 10]) for at in (0, 10))
    width, rows, planes = values[20:]
    return to, source, (width, rows, planes), Kind.DEFAULT


def rows_of_driver(given: int) -> Copied:
    """Read a CUDA_MEMCPY2D."""
    values = _ROWS_OF_DRIVER.unpack(ctypes.string_at(given, _ROWS_OF_DRIVER.size))
    ends = (
        (x, y, 0, 0, kind, host, device, array, pitch, 0)
        for x, y, kind, host, device, array, pitch in (values[:7], values[7:14])
    )
    source, to = (_end(*each) for each in ends)
    return to, source, (*values[14:], 1), Kind.DEFAULT


def _end(x: int, y: int, z: int, _lod: int, kind: int, host: int, device: int, array: int, *steps: int) -> Box:
    return _box(array, host if kind == _HOST_MEMORY else device, (x, y, z), *steps)


def box_of_runtime(given: int) -> Copied:
    """Read a cudaMemcpy3DParms."""
    *words, kind = _BOX_OF_RUNTIME.unpack(ctypes.string_at(given, _BOX_OF_RUNTIME.size))
    source, to = (
        _box(array, pointer, (x, y, z), pitch, height)
        for array, x, y, z, pointer, pitch, _width, height in (words[0:8], words[8:16])
    )
    width, rows, planes = words[16:19]
    return to, source, (width, rows, planes), Kind(kind)


def _box(array: int, pointer: int, at: tuple[int, int, int], pitch: int, height: int) -> Box:
    """Return the box that begins `at` bytes, rows and planes behind a pointer. Raises NotEmulated for an array."""
    if array:
        raise not_emulated("a copy of a CUDA array", "copy linear memory")
    x, y, z = at
    return pointer + x + y * pitch + z * pitch * height, pitch, pitch * height
