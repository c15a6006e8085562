"""Names of CuTeDSL's arrays in shared memory: recorded while a kernel is traced, appended to its PTX as comments.

PTX has one nameless array of dynamic shared memory. The comments go wherever the PTX goes: to other processes, into
recordings and caches. `emulator/ptx/source.py` reads them.
"""

from __future__ import annotations

import ast
import contextlib
import itertools
import linecache
import re
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, wraps
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, Final

from ..machine.formats.cute_layouts import parse
from ..patching import Patches
from ..ptx.source import comment

ALLOCATE: Final = "cute.memref.alloca"
POINTERS: Final = frozenset({"cute.get_iter", "cute.recast_iter"})
_MEMREF: Final = re.compile(
    r'!cute\.memref<(?P<type>\w+), smem(?:, align<(?P<align>\d+)>)?(?:, (?P<swizzle>S<[\d,]+>))?, "(?P<layout>[^"]+)">'
)
_NUMBER: Final = re.compile(r'"(\d+)"')
_FLOATS: Final = {"bf16": "bf16", "f16": "f16", "f32": "f32", "f64": "f64", "f8E4M3FN": "e4m3", "f8E5M2": "e5m2"}


class _Traced(threading.local):
    """Results of this thread's tracing: the names of each kernel's allocations, the comments of the newest module."""

    def __init__(self) -> None:
        self.names: dict[str, list[str]] = defaultdict(list)
        self.comments = ""


@dataclass(frozen=True)
class _Array:
    """An array in a kernel's dynamic shared memory: a variable or a member of a struct. Offset and size are in bytes.

    view: type, swizzle of byte addresses and layout of the first tensor that the kernel makes of it; "" for none.
    """

    name: str
    offset: int
    size: int
    view: str
    member: bool


_traced = _Traced()


def record_shared_arrays(cutlass: ModuleType) -> None:
    """Make CuTeDSL record the shared-memory arrays of the kernels that it compiles. cutlass: the package, imported.

    Versions of CuTeDSL with other internals have no names.
    """
    with contextlib.suppress(ImportError, AttributeError):
        _replace(Path(str(cutlass.__file__)).parent)


def _replace(library: Path) -> None:
    """Replace the functions of CuTeDSL that allocate, finish a traced module, and read the PTX of a compiled one."""
    from cutlass._mlir.dialects import cute as dialect
    from cutlass.base_dsl.dsl import BaseDSL
    from cutlass.base_dsl.jit_executor import JitFunctionArtifacts

    allocate, build, read = dialect.memref_alloca, BaseDSL.build_module, JitFunctionArtifacts.__post_init__

    @wraps(allocate)
    def memref_alloca(*args: Any, **kwargs: Any) -> Any:
        made = allocate(*args, **kwargs)
        operation = _plain(made).owner
        if _MEMREF.match(_result_type(operation)):
            name = ""
            with contextlib.suppress(Exception):
                name = _name(sys._getframe(1), library)
            _traced.names[_kernel_around(operation)].append(name)
        return made

    @wraps(build)
    def build_module(self: Any, module: Any, function_name: str) -> Any:
        names, _traced.names, _traced.comments = _traced.names, defaultdict(list), ""
        with contextlib.suppress(Exception):  # without names the program runs as well
            _traced.comments = "".join(_comments(module, names))
        return build(self, module, function_name)

    @wraps(read)
    def post_init(self: Any) -> None:
        read(self)
        comments, _traced.comments = _traced.comments, ""  # of the module that was compiled, not of one restored later
        if self.PTX and comments not in self.PTX:
            self.PTX += comments

    for_good = Patches()
    for_good.set(dialect, "memref_alloca", memref_alloca)
    for_good.set(BaseDSL, "build_module", build_module)
    for_good.set(JitFunctionArtifacts, "__post_init__", post_init)


def _kernel_around(operation: Any) -> str:
    """Return the name of the kernel that holds an operation; empty if none does."""
    while operation is not None and "sym_name" not in operation.attributes:
        operation = operation.parent
    return "" if operation is None else str(operation.attributes["sym_name"].value)


# from a traced module to comments ------------------------------------------------------------------------------------


def _comments(module: Any, names: dict[str, list[str]]) -> Iterator[str]:
    """Yield the comments for a traced module. names: of the allocations by kernel, in the order of tracing."""
    from cutlass._mlir.ir import WalkOrder, WalkResult  # type: ignore[attr-defined]

    found: dict[str, list[Any]] = defaultdict(list)

    def visit(operation: Any) -> Any:
        if operation.name == ALLOCATE and _MEMREF.match(_result_type(operation)):
            found[_kernel_around(operation)].append(operation)
        return WalkResult.ADVANCE

    module.operation.walk(visit, WalkOrder.PRE_ORDER)
    for kernel, allocations in found.items():
        known = names[kernel][-len(allocations) :]  # those before are of a trace that failed
        if len(known) == len(allocations):
            for each in _arrays(allocations, known):
                yield comment(kernel, each.name, each.offset, each.size, each.view, each.member)


def _arrays(allocations: Sequence[Any], names: Sequence[str]) -> Iterator[_Array]:
    """Yield the named arrays of a kernel.

    CuTeDSL places the allocations of a partition one after another, each at its alignment, and its own partition first.
    """
    several, seen = Counter(names), Counter[str]()
    at = 0
    for operation, name in sorted(zip(allocations, names, strict=True), key=lambda pair: _partition(pair[0])):
        match = _MEMREF.match(_result_type(operation))
        assert match is not None
        size = int(parse(match["layout"]).offsets().max() + 1) * _bits(match["type"]) // 8
        align = int(match["align"] or _bits(match["type"]) // 8)
        at = -(-at // align) * align
        shown = f"{name}[{seen[name]}]" if several[name] > 1 else name
        seen[name] += 1
        views = dict(_views(operation.results[0], 0))
        if "smem.struct_fields" in operation.attributes:
            for field in operation.attributes["smem.struct_fields"]:
                member, length, offset = field.value.rsplit(":", 2)
                yield _Array(member, at + int(offset), int(length), views.get(int(offset), ""), True)
        elif name:
            yield _Array(shown, at, size, views.get(0, ""), False)
        at += size


def _partition(operation: Any) -> int:
    attributes = operation.attributes
    return int(attributes["smem.partition_id"].value) if "smem.partition_id" in attributes else 1


def _views(pointer: Any, offset: int) -> Iterator[tuple[int, str]]:
    """Yield (byte offset, view) of the tensors made of a pointer, the first one last: users are listed backwards."""
    for use in _plain(pointer).uses:
        operation = use.owner
        if operation.name in POINTERS:
            yield from _views(operation.results[0], offset)
        elif operation.name == "cute.add_offset" and ".ptr<i8," in str(_plain(pointer).type):
            moved = _NUMBER.search(str(_plain(operation.operands[1]).type))
            if moved is not None:
                yield from _views(operation.results[0], offset + int(moved[1]))
        elif operation.name == "cute.make_view":
            match = _MEMREF.match(_result_type(operation))
            if match is not None and _bits(match["type"]) >= 8:
                yield offset, f"{_type(match['type'])} {match['swizzle'] or '-'} {match['layout']}"


def _plain(value: Any) -> Any:
    """Return MLIR's value of one of CuTeDSL's objects."""
    return getattr(value, "value", value)


def _result_type(operation: Any) -> str:
    return str(_plain(operation.results[0]).type)


def _bits(kind: str) -> int:
    digits = re.search(r"\d+", kind)
    assert digits is not None, kind
    return int(digits[0])


def _type(kind: str) -> str:
    """Return the debugger's name of an element type of MLIR."""
    return _FLOATS.get(kind) or f"{'u' if kind.startswith('u') else 's'}{_bits(kind)}"


# names in the source -------------------------------------------------------------------------------------------------


def _name(frame: FrameType | None, library: Path) -> str:
    """Find the variable, attribute or keyword that receives the result of the innermost call into the library.

    If the calling function returns the result, its caller is searched too. Empty if nothing receives it.
    """
    while frame is not None:
        if not Path(frame.f_code.co_filename).is_relative_to(library):
            name, returned = _receiver(frame)
            if name or not returned:
                return name
        frame = frame.f_back
    return ""


def _receiver(frame: FrameType) -> tuple[str, bool]:
    """Return (the name that receives the value of a frame's current call, whether the function returns the value)."""
    positions = next(itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
    element = 0
    for inner, outer in itertools.pairwise(reversed(_path(frame.f_code.co_filename, *positions))):
        match outer:
            case ast.keyword(arg=str(name)):
                return name, False
            case ast.Tuple(elts=parts) if inner in parts:
                element = parts.index(inner)
            case ast.Assign(targets=[target, *_]) | ast.AnnAssign(target=target) | ast.NamedExpr(target=target):
                return _variable(target, element), False
            case ast.stmt():
                return "", isinstance(outer, ast.Return)
    return "", False


def _variable(target: ast.expr, element: int) -> str:
    """Return the last name of a target; of a tuple, that of an element."""
    match target:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Tuple(elts=parts) if element < len(parts):
            return _variable(parts[element], 0)
    return ""


def _path(file: str, line: int | None, end: int | None, column: int | None, end_column: int | None) -> list[ast.AST]:
    """Return the nodes of a file around a place, outer ones first."""
    path: list[ast.AST] = []
    node = _tree(file)
    while node is not None and line is not None:
        path.append(node)
        node = next((n for n in ast.iter_child_nodes(node) if _holds(n, line, end or line, column, end_column)), None)
    return path


def _holds(node: ast.AST, line: int, end: int, column: int | None, end_column: int | None) -> bool:
    if getattr(node, "end_lineno", None) is None:
        return False
    here: Any = node
    if column is None or end_column is None:
        return bool(here.lineno <= line and end <= here.end_lineno)
    first, last = (here.lineno, here.col_offset), (here.end_lineno, here.end_col_offset)
    return bool(first <= (line, column) and (end, end_column) <= last)


@lru_cache(maxsize=64)
def _tree(file: str) -> ast.AST | None:
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return None
