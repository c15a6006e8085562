"""mov, cvta, isspacep and selections: values that change place, not content."""

from __future__ import annotations

from emulator.isa.parts import Modifiers
from emulator.isa.registry import lowers
from emulator.isa.spaces import LOCAL_BASE, SHARED_BASE, WINDOW_BYTES
from emulator.native.run import INTEGER_OF, Cell, Run
from emulator.native.vector import Vec
from emulator.ptx.syntax import Instr, Operand, Reg, Special, Vector

WINDOW = Special("@window")
PARAMS = Special("@params")
_BITS = {"pred": "i1", "b8": "i8"} | {f"{k}{n}": f"i{n}" for k in "bsuf" for n in (16, 32, 64)}
_HALVES = {"b32": "b16", "b64": "b32", "b128": "b64"}


@lowers("mov")
def mov(run: Run, ins: Instr) -> None:
    """Registers alias; {lo, hi} stay apart until someone needs the whole."""
    m = Modifiers(ins)
    type_name = m.last()
    m.done()
    to, source = ins.operands
    if isinstance(source, Vector) and len(source.items) == 2 and isinstance(to, Reg):
        half = _HALVES[to.type]
        run.alias(to, Cell(to.type, halves=(_half(run, source.items[0], half), _half(run, source.items[1], half))))
    elif isinstance(to, Vector) and len(to.items) == 2 and isinstance(source, Reg):
        for item, half_cell in zip(to.items, run.cell(source).split(), strict=True):
            run.alias(item, half_cell)
    elif isinstance(source, Reg) and isinstance(to, Reg) and source.type == to.type:
        run.alias(to, run.cell(source))
    else:
        run.write(to, run.read(source, _BITS[type_name]))


def _half(run: Run, item: Operand, type_name: str) -> Cell:
    if isinstance(item, Reg) and item.type == type_name:
        return run.cell(item)
    kind = INTEGER_OF[type_name]
    return Cell(type_name, {kind: run.read(item, kind)})


@lowers("cvta")
def cvta(run: Run, ins: Instr) -> None:
    """Between a state space and the generic address space."""
    m = Modifiers(ins)
    kind = _BITS[m.choice("u32", "u64")]
    to_space = m.flag("to")
    space = m.choice("global", "const", "shared", "shared::cta", "shared::cluster", "local", "param", "param::entry")
    m.done()
    address = run.read(ins.operands[1], kind)
    if space.startswith("shared") or space == "local":
        base: Vec | int = LOCAL_BASE if space == "local" else SHARED_BASE
    elif space.startswith("param"):
        base = run.read(PARAMS, kind)
    else:
        base = 0
    run.write(ins.operands[0], address - base if to_space else address + base)


@lowers("isspacep")
def isspacep(run: Run, ins: Instr) -> None:
    """Whether a generic address lies in a state space."""
    m = Modifiers(ins)
    space = m.choice("global", "const", "shared", "shared::cta", "shared::cluster", "local", "param")
    m.done()
    address = run.read(ins.operands[1], "i64")
    if space.startswith("shared"):
        inside = (address - SHARED_BASE).compare("ult", WINDOW_BYTES)
    elif space == "local":
        inside = (address - LOCAL_BASE).compare("ult", WINDOW_BYTES)
    elif space == "global":
        inside = address.compare("ult", LOCAL_BASE)
    else:
        raise m.refuse(f"isspacep of {space}")
    run.write(ins.operands[0], inside)


@lowers("selp")
def selp(run: Run, ins: Instr) -> None:
    """d = p ? a : b."""
    m = Modifiers(ins)
    kind = _BITS[m.last()]
    m.done()
    to, yes, no, predicate = ins.operands
    run.write(to, run.read(predicate, "i1").select(run.read(yes, kind), run.read(no, kind)))


@lowers("slct")
def slct(run: Run, ins: Instr) -> None:
    """d = c >= 0 ? a : b."""
    m = Modifiers(ins)
    by = m.last()
    kind = _BITS[m.last()]
    m.flag("ftz")
    m.done()
    to, yes, no, what = ins.operands
    sign = run.read(what, "float").compare("oge", 0.0) if by == "f32" else run.read(what, "i32").compare("sge", 0)
    run.write(to, sign.select(run.read(yes, kind), run.read(no, kind)))
