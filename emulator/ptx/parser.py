"""Parse PTX text to a `Module`: kernels and module-scope variables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ..chip import RESERVED_SHARED_BYTES
from ..errors import PtxSyntaxError
from .body import Body
from .declarations import dimensions, number, parameters, placed, variable
from .source import Source, arrays
from .statements import FUNCTION_ADDRESSES, FUNCTION_BYTES, Function, functions
from .syntax import GlobalVariable, Instr, Kernel, Module, Symbol, Variable, atoms

_ENTRY = re.compile(r"(?:\.visible\s+|\.weak\s+)*\.entry\s+([\w$]+)\s*(?:\(([^)]*)\))?([^{]*)\{")
_TARGET = re.compile(r"\.target\s+(\w+)")


def parse(text: str) -> Module:
    """Parse a PTX module. A kernel with a syntax error is recorded in `Module.rejected`.

    Raises PtxSyntaxError with line and text if no kernel can be parsed.
    """
    source = Source(text)
    target = _TARGET.search(source.text)
    if target is None:
        raise source.error("no .target directive", 0)
    kernels: dict[str, Kernel] = {}
    rejected: dict[str, Exception] = {}
    outside: list[tuple[int, str]] = []
    known = dict(functions(source))
    bodies = {start: function.end + 1 for start, function in known.items()}
    by_name = {function.name: function for function in known.values()}
    for entry in _ENTRY.finditer(source.text):
        bodies[entry.start()] = end = source.end_of_block(entry.end())
        try:
            kernels[entry.group(1)] = _kernel(source, entry, end, by_name)
        except PtxSyntaxError as error:
            rejected[entry.group(1)] = error
    if rejected and not kernels:
        raise next(iter(rejected.values()))
    at = 0
    for start, end in sorted(bodies.items()):
        outside.append((at, source.text[at:start]))
        at = end
    outside.append((at, source.text[at:]))
    addresses = {name: FUNCTION_ADDRESSES + FUNCTION_BYTES * i for i, name in enumerate(by_name)}
    variables, shared = _module_variables(source, outside, addresses)
    found = {name: _with_shared(kernel, shared) for name, kernel in kernels.items()}
    return Module(found, variables, target.group(1), addresses, rejected)


def _kernel(source: Source, entry: re.Match[str], end: int, known: Mapping[str, Function]) -> Kernel:
    body = Body(source, entry.end(), end - 1, known)
    directives = entry.group(3)
    try:
        params = parameters(entry.group(2) or "")
    except ValueError as error:
        raise source.error(str(error), entry.start()) from None
    return Kernel(
        name=entry.group(1),
        params=params,
        shared=tuple(body.shared),
        local=tuple(placed(body.local, 0)),
        registers=body.registers,
        instrs=tuple(_numbered_twins(body.instrs)),
        labels=body.labels,
        reqntid=dimensions(directives, "reqntid"),
        maxntid=dimensions(directives, "maxntid"),
        reqnctapercluster=dimensions(directives, "reqnctapercluster"),
        maxnreg=number(directives, "maxnreg"),
        minnctapersm=number(directives, "minnctapersm"),
        locations=tuple(body.locations),
        source=source.lines,
    )


def _numbered_twins(instrs: Sequence[Instr]) -> Iterator[Instr]:
    """Set `twin` of the instructions that occur more than once on one line."""
    seen: Counter[tuple[int, str]] = Counter()
    for instr in instrs:
        twin = seen[instr.line, instr.text]
        seen[instr.line, instr.text] += 1
        yield replace(instr, twin=twin) if twin else instr


def _module_variables(
    source: Source, outside: list[tuple[int, str]], functions: Mapping[str, int]
) -> tuple[tuple[GlobalVariable, ...], list[Variable]]:
    """Return the module-scope variables: (those of global and constant memory, those of shared memory)."""
    in_global: list[GlobalVariable] = []
    in_shared: list[Variable] = []
    referring: list[tuple[int, GlobalVariable]] = []
    for at, text in outside:
        for declaration in re.finditer(r"\.(?:visible|extern|weak|common|shared|global|const)\b[^;]*", text):
            try:
                found = variable(declaration.group())
            except ValueError as error:
                raise source.error(str(error), at + declaration.start()) from None
            if found is not None and found[0] == "shared":
                in_shared.append(found[1])
            elif found is not None:
                in_global.append(found[2])
                referring.append((at + declaration.start(), found[2]))
    known = {*functions, *(one.name for one in in_global)}
    for place, one in referring:
        for _, name in one.references:
            if name not in known:
                raise source.error(f"{name!r} in an initialiser is not a variable or function of the module", place)
    return tuple(in_global), in_shared


def _with_shared(kernel: Kernel, module_shared: list[Variable]) -> Kernel:
    """Return the kernel with all shared variables that it uses placed, the dynamic ones (without a size) last."""
    used = {found.name for instr in kernel.instrs for found in atoms(instr.operands) if isinstance(found, Symbol)}
    everything = [*kernel.shared, *(v for v in module_shared if v.name in used)]
    fixed = tuple(placed([v for v in everything if v.size], RESERVED_SHARED_BYTES))
    kernel = replace(kernel, shared=fixed)
    start = kernel.dynamic_shared_offset
    dynamic = tuple(Variable(v.name, 0, v.align, start) for v in everything if not v.size)
    return replace(kernel, shared=fixed + dynamic, arrays=tuple(arrays(kernel.source, kernel.name, start))[::-1])
