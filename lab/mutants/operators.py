"""Generate mutants: small edits of a source file, each of a kind that a bug of a kernel could be.

An operator is a generator of (node, replacement) for one node of the syntax tree. Edits are made in the text, so that
a mutant keeps the file's other lines, and their numbers, as they are.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise


@dataclass(frozen=True)
class Span:
    """A span of the source: byte offsets, first line and last."""

    start: int
    end: int
    line: int
    last_line: int


Edits = Iterator[tuple[ast.AST | Span, str]]


@dataclass(frozen=True)
class Mutant:
    """One edit of one file.

    id: stable as long as the line's text, its function and the edit are. start, end: byte offsets of what is replaced.
    """

    id: str
    path: str
    function: str
    operator: str
    line: int
    last_line: int
    text: str
    start: int
    end: int
    replacement: str

    def source(self, original: str) -> str:
        """Return the mutated text of the file."""
        raw = original.encode()
        return (raw[: self.start] + self.replacement.encode() + raw[self.end :]).decode()

    def diff(self, original: str) -> str:
        """Return the lines that change, with `-` and `+`."""
        old, new = original.splitlines(), self.source(original).splitlines()
        before = next(i for i, (a, b) in enumerate(zip([*old, ""], [*new, " "], strict=False)) if a != b)
        after = next(i for i, (a, b) in enumerate(zip([*old[::-1], ""], [*new[::-1], " "], strict=False)) if a != b)
        after = min(after, len(old) - before, len(new) - before)
        removed, added = old[before : len(old) - after], new[before : len(new) - after]
        return "\n".join([*(f"-{line}" for line in removed), *(f"+{line}" for line in added)])


@dataclass(frozen=True)
class Place:
    """Position of a node: its text, its parents from the nearest up, and the names of the enclosing definitions."""

    node: ast.AST
    parents: tuple[ast.AST, ...]
    function: str
    source: bytes
    lines: tuple[int, ...]

    def text(self, node: ast.AST) -> str:
        """Return the source text of a node."""
        at = self.span(node)
        return self.source[at.start : at.end].decode()

    def operand(self, node: ast.AST) -> str:
        """Return the source text of a node that may be an operand of any operator."""
        plain = isinstance(node, ast.Name | ast.Attribute | ast.Constant | ast.Call | ast.Subscript | ast.Tuple)
        return self.text(node) if plain else f"({self.text(node)})"

    def span(self, first: ast.AST, last: ast.AST | None = None) -> Span:
        """Return the place of a node in the file, or of the nodes from one to another."""
        last = last or first
        assert isinstance(first, ast.stmt | ast.expr | ast.keyword) and isinstance(
            last, type(first) | ast.stmt | ast.expr
        )
        assert last.end_lineno is not None and last.end_col_offset is not None
        start = self.lines[first.lineno - 1] + first.col_offset
        end = self.lines[last.end_lineno - 1] + last.end_col_offset
        return Span(start, end, first.lineno, last.end_lineno)


Operator = Callable[[Place], Edits]

#: Barriers that can be exchanged: those that a consumer waits for, and those that return a slot.
BARRIERS = (
    ("q_full", "k_full", "v_full", "tail_full", "s_full", "p_full", "o_done"),
    ("q_empty", "k_empty", "v_empty"),
)
BOUNDARY = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}
NEGATION = {
    ast.Lt: ">=", ast.LtE: ">", ast.Gt: "<=", ast.GtE: "<", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
CLAMPS = ("larger", "smaller", "min", "max", "fmax")
LOGARITHMS = {"LN2": "LOG2E", "LOG2E": "LN2"}
#: Functions that only name or describe, so that an edit changes what people read and nothing that runs.
DESCRIPTIONS = ("FmhaConfig.name", "DeviceConfig.mbarriers", "Fmha.trace")
#: Keyword arguments that change no result: how a loop is unrolled, and what is asserted about lengths.
HINTS = ("unroll", "strict")
#: Functions that only choose between configurations by their speed.
SPEED = ("estimate", "Problem.window_keys")


def drop_call(at: Place) -> Edits:
    """Leave out a call whose result nothing takes: a wait, an arrival, a fence, a store, a check."""
    if isinstance(at.node, ast.Expr) and isinstance(at.node.value, ast.Call) and _called(at.node.value) != "trace":
        yield at.node, "pass"


def drop_update(at: Place) -> Edits:
    """Leave out an augmented assignment."""
    if isinstance(at.node, ast.AugAssign):
        yield at.node, "pass"


def drop_raise(at: Place) -> Edits:
    """Leave out a rejection, but not what stands for the body of an abstract method."""
    if isinstance(at.node, ast.Raise) and at.text(at.node) != "raise NotImplementedError":
        yield at.node, "pass"


def elect_all(at: Place) -> Edits:
    """All threads of a warp do what one should."""
    if isinstance(at.node, ast.With):
        item = at.node.items[0].context_expr
        if at.text(item).endswith("elect_one()"):
            yield at.span(at.node, item), "if True"


def swap_calls(at: Place) -> Edits:
    """Two calls in a row, in the other order."""
    for name in ("body", "orelse"):
        body = getattr(at.node, name, None)
        if not isinstance(body, list):
            continue
        for one, other in pairwise(body):
            if all(isinstance(each, ast.Expr) and isinstance(each.value, ast.Call) for each in (one, other)):
                between = at.source[at.span(one).end : at.span(other).start].decode()
                yield at.span(one, other), f"{at.text(other)}{between}{at.text(one)}"


def flip_phase(at: Place) -> Edits:
    """Take the other parity, at a wait or where stage and phase are computed."""
    if isinstance(at.node, ast.Call) and _called(at.node) == "wait" and len(at.node.args) == 3:
        yield at.node.args[2], f"({at.text(at.node.args[2])}) ^ 1"
    if isinstance(at.node, ast.Return) and at.function.endswith("_and_phase") and isinstance(at.node.value, ast.Tuple):
        phase = at.node.value.elts[1]
        yield phase, f"({at.text(phase)}) ^ 1"


def other_stage(at: Place) -> Edits:
    """Take the next stage or slot of the same barrier."""
    if isinstance(at.node, ast.Call) and _called(at.node) in ("wait", "arrive_warp", "commit", "expect"):
        args = at.node.args
        if (
            len(args) > 1
            and isinstance(args[0], ast.Constant | ast.Name | ast.Attribute)
            and "bars" in at.text(at.node)
        ):
            yield args[1], f"({at.text(args[1])}) + 1"


def other_barrier(at: Place) -> Edits:
    """Another barrier of the same kind."""
    if isinstance(at.node, ast.Constant) and isinstance(at.node.value, str):
        for kind in BARRIERS:
            if at.node.value in kind:
                yield at.node, f'"{kind[(kind.index(at.node.value) + 1) % len(kind)]}"'


def boundary(at: Place) -> Edits:
    """Include the boundary of a comparison, or exclude it."""
    if isinstance(at.node, ast.Compare) and len(at.node.ops) == 1 and type(at.node.ops[0]) in BOUNDARY:
        left, right = at.operand(at.node.left), at.operand(at.node.comparators[0])
        yield at.node, f"{left} {BOUNDARY[type(at.node.ops[0])]} {right}"


def negate(at: Place) -> Edits:
    """Negate a comparison or a condition."""
    if isinstance(at.node, ast.Compare) and len(at.node.ops) == 1 and type(at.node.ops[0]) in NEGATION:
        left, right = at.operand(at.node.left), at.operand(at.node.comparators[0])
        yield at.node, f"{left} {NEGATION[type(at.node.ops[0])]} {right}"
    if isinstance(at.node, ast.If | ast.IfExp) and isinstance(at.node.test, ast.Name | ast.Attribute | ast.Call):
        test: ast.expr = at.node.test
        if isinstance(test, ast.Call) and _called(test) == "const_expr":
            test = test.args[0]
        if isinstance(test, ast.Name | ast.Attribute | ast.Call):
            yield test, f"(not {at.text(test)})"
    if isinstance(at.node, ast.UnaryOp) and isinstance(at.node.op, ast.Not):
        yield at.node, at.operand(at.node.operand)


def drop_operand(at: Place) -> Edits:
    """One side of a conjunction or disjunction alone."""
    if isinstance(at.node, ast.BoolOp):
        values = at.node.values
        for i in range(len(values)):
            word = " and " if isinstance(at.node.op, ast.And) else " or "
            yield at.node, word.join(at.operand(v) for j, v in enumerate(values) if j != i)
    if isinstance(at.node, ast.BinOp) and isinstance(at.node.op, ast.BitAnd | ast.BitOr) and not _type_union(at):
        yield at.node, at.operand(at.node.left)
        yield at.node, at.operand(at.node.right)


def one_arm(at: Place) -> Edits:
    """Make a conditional expression always take one arm."""
    if isinstance(at.node, ast.IfExp):
        yield at.node, at.operand(at.node.body)
        yield at.node, at.operand(at.node.orelse)


def drop_clamp(at: Place) -> Edits:
    """Replace a minimum or maximum of two by one of them."""
    if isinstance(at.node, ast.Call) and _called(at.node) in CLAMPS and len(at.node.args) == 2 and not at.node.keywords:
        for each in at.node.args:
            if not isinstance(each, ast.Starred | ast.GeneratorExp):
                yield at.node, at.operand(each)


def select_arms(at: Place) -> Edits:
    """Swap the arms of a select, or make it always take one."""
    if isinstance(at.node, ast.Call) and _called(at.node) == "select_" and len(at.node.args) == 3:
        condition, one, other = at.node.args
        name = at.text(at.node.func)
        yield at.node, f"{name}({at.text(condition)}, {at.text(other)}, {at.text(one)})"
        for arm in (one, other):
            yield at.node, f"{name}({at.text(condition)}, {at.text(arm)}, {at.text(arm)})"


def arithmetic(at: Place) -> Edits:
    """Addition for subtraction, a factor, shift or remainder left out, a quotient rounded up."""
    if not isinstance(at.node, ast.BinOp):
        return
    left, right = at.operand(at.node.left), at.operand(at.node.right)
    if isinstance(at.node.op, ast.Add | ast.Sub) and not isinstance(at.node.left, ast.Tuple | ast.List):
        yield at.node, f"({left} {'-' if isinstance(at.node.op, ast.Add) else '+'} {right})"
    elif isinstance(at.node.op, ast.Mult):
        yield at.node, left
        yield at.node, right
    elif isinstance(at.node.op, ast.FloorDiv):
        yield at.node, f"(({left} + {right} - 1) // {right})"
        yield at.node, left
    elif isinstance(at.node.op, ast.Mod | ast.LShift | ast.RShift | ast.BitXor | ast.Div):
        yield at.node, left


def drop_minus(at: Place) -> Edits:
    """Leave out a sign."""
    if isinstance(at.node, ast.UnaryOp) and isinstance(at.node.op, ast.USub):
        yield at.node, at.operand(at.node.operand)


def integer(at: Place) -> Edits:
    """Add one to a whole number or to a constant that has one, or subtract one."""
    if isinstance(at.node, ast.Constant) and type(at.node.value) is int:
        yield at.node, str(at.node.value + 1)
        if at.node.value > 0:
            yield at.node, str(at.node.value - 1)


def bound_of_range(at: Place) -> Edits:
    """End a loop one early, or begin it one late."""
    if isinstance(at.node, ast.Call) and _called(at.node) in ("range", "range_constexpr") and at.node.args:
        args = [each for each in at.node.args if not isinstance(each, ast.Starred)]
        if len(args) == 1 and not isinstance(args[0], ast.Constant):
            yield args[0], f"{at.text(args[0])} - 1"
        elif len(args) > 1:
            yield args[1], f"{at.text(args[1])} - 1"
            yield args[0], f"{at.text(args[0])} + 1"


def scale(at: Place) -> Edits:
    """Change a scale by 1%, or square it; take the other logarithm of two."""
    if isinstance(at.node, ast.Name | ast.Attribute) and isinstance(at.node.ctx, ast.Load):
        name = at.node.id if isinstance(at.node, ast.Name) else at.node.attr
        if name in LOGARITHMS and isinstance(at.node, ast.Name):
            yield at.node, LOGARITHMS[name]
        if name == "scale_log2" and not isinstance(at.parents[0], ast.Assign | ast.Call):
            yield at.node, f"({at.text(at.node)} * 1.01)"
            yield at.node, f"({at.text(at.node)} * {at.text(at.node)})"
        if name in ("factor", "inverse") and isinstance(at.node, ast.Name):
            yield at.node, f"({at.text(at.node)} * 1.01)"


def real(at: Place) -> Edits:
    """Change a floating-point constant by 1%, or zero to one; let an exponent's threshold hold never or always."""
    if isinstance(at.node, ast.Constant) and type(at.node.value) is float:
        value = at.node.value
        yield at.node, repr(value * 1.01) if value else "1.0"
        if isinstance(at.parents[0], ast.Assign) and value:
            yield at.node, repr(1e9)
            yield at.node, repr(-1e9)


def flip_flag(at: Place) -> Edits:
    """Swap True and False."""
    if isinstance(at.node, ast.Constant) and isinstance(at.node.value, bool):
        yield at.node, str(not at.node.value)


def drop_keyword(at: Place) -> Edits:
    """Leave out a keyword argument."""
    if isinstance(at.node, ast.Call):
        for each in at.node.keywords:
            if each.arg not in (None, *HINTS) and _called(at.node) not in ("dataclass", "field", "launch"):
                found = at.span(each)
                comma = at.source[found.end : found.end + 1] == b","
                yield replace(found, end=found.end + comma), ""


def clear_nothing(at: Place) -> Edits:
    """Write another value instead of zeros."""
    if isinstance(at.node, ast.Call) and _called(at.node) == "fill" and isinstance(at.node.args[0], ast.Constant):
        yield at.node.args[0], "1.0"


OPERATORS: dict[str, Operator] = {
    "drop": drop_call,
    "update": drop_update,
    "allow": drop_raise,
    "elect": elect_all,
    "order": swap_calls,
    "phase": flip_phase,
    "stage": other_stage,
    "barrier": other_barrier,
    "boundary": boundary,
    "negate": negate,
    "operand": drop_operand,
    "arm": one_arm,
    "clamp": drop_clamp,
    "select": select_arms,
    "arithmetic": arithmetic,
    "sign": drop_minus,
    "integer": integer,
    "range": bound_of_range,
    "scale": scale,
    "real": real,
    "flag": flip_flag,
    "keyword": drop_keyword,
    "fill": clear_nothing,
}


def mutants(path: str, source: str) -> list[Mutant]:
    """Return all mutants of a file, in the order of its lines."""
    raw = source.encode()
    starts = [0]
    for each in raw.splitlines(keepends=True):
        starts.append(starts[-1] + len(each))
    text, found, seen = source.splitlines(), [], Counter[str]()
    edits: set[tuple[Span, str]] = set()
    for at in places(ast.parse(source), (), "", raw, tuple(starts)):
        for name, operator in OPERATORS.items():
            for node, replacement in operator(at):
                where = node if isinstance(node, Span) else at.span(node)
                before = raw[where.start : where.end].decode()
                if (where, replacement) in edits or before == replacement:
                    continue
                edits.add((where, replacement))
                line = text[where.line - 1].strip()
                made_of = f"{line}|{before}|{replacement}"
                key = f"{path}:{at.function or 'module'}:{name}:{hashlib.sha256(made_of.encode()).hexdigest()[:6]}"
                seen[key] += 1
                unique = key if seen[key] == 1 else f"{key}.{seen[key]}"
                lines = where.line, where.last_line
                found.append(Mutant(unique, path, at.function, name, *lines, line, where.start, where.end, replacement))
    return sorted(found, key=lambda each: (each.start, each.end))


def places(
    node: ast.AST, parents: tuple[ast.AST, ...], function: str, source: bytes, lines: tuple[int, ...]
) -> Iterator[Place]:
    """Return every node that may be edited: no docstrings, annotations, messages or descriptions."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        function = f"{function}.{node.name}".lstrip(".")
    if function in DESCRIPTIONS or function in SPEED:
        return
    yield Place(node, parents, function, source, lines)
    if isinstance(node, ast.JoinedStr | ast.Raise | ast.Assert | ast.Import | ast.ImportFrom):
        return
    if isinstance(node, ast.keyword) and node.arg in HINTS:
        return
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "Literal":
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_comment", "bases"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _docstring(child):
                yield from places(child, (node, *parents), function, source, lines)


def _docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _type_union(at: Place) -> bool:
    """Return True for `A | B` as isinstance takes it."""
    return any(isinstance(each, ast.Call) and _called(each) == "isinstance" for each in at.parents)
