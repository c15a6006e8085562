"""Reader of recorded launches: the matrix instructions, copies and clusters in their PTX.

The candidate wrote the recording, so it is read as untrusted input. What the reader does not understand is not shown.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from emulator.errors import EmulatorError
from emulator.machine.formats.descriptors import KINDS, InstructionDescriptor
from emulator.modules import LoadedModule, load
from emulator.ptx.syntax import Address, Dual, GlobalVariable, Imm, Instr, Kernel, Operand, Reg, Special, Vector, atoms
from emulator.recordings.format import Launched, Recording
from stages.proofs import Chip, Shown, Unproven

#: Registers that a launch determines. Others say when and where it runs: code that reads them may do something else
#: elsewhere.
DETERMINED = re.compile(
    r"%n?(tid|ctaid|clusterid)|%cluster_n?cta(id|rank)|%laneid|%lanemask_\w+|%is_explicit_cluster|%\w+_smem_size"
)
TARGET = re.compile(r"sm_(90|10)\d*[af]")
COLUMNS = re.compile(r"m64n(\d+)k\d+")  # of a wgmma
EXCHANGE = "mapa"  # the address of another CTA's shared memory
DEEPEST = 8  # additions of constants from a base to an address


class Product(NamedTuple):
    """A matrix instruction. v: its operand that is transposed, and so is V: "a", "b" or "". a: the memory of A."""

    v: str
    a: str
    columns: int
    ctas: int
    accumulator: str


def shown(recording: Recording, acted: Sequence[Collection[int]] | None = None) -> tuple[Chip, list[Shown]]:
    """Return the chip that a recording's kernels are compiled for, and what its launches show. Raises Unproven.

    acted: by launch, the places of the instructions that count; by default all do.
    """
    if not recording.launches:
        raise Unproven(f"{recording.name}: the call launches nothing")
    launches, targets = [], set()
    for number, launched in enumerate(recording.launches):
        try:
            module = load(recording.modules[launched.module].ptx)
            kernel, marked, undetermined = _read(module, launched.kernel)
        except (EmulatorError, LookupError, ValueError, StopIteration) as error:
            raise Unproven(f"{recording.name}: the PTX of {launched.kernel} cannot be read: {error}") from error
        if undetermined:
            raise Unproven(f"{recording.name}: {launched.kernel} {undetermined}")
        counted = [each for at, each in marked.items() if acted is None or at in acted[number]]
        launches.append(_shown(launched, kernel, list(recording.tensors), counted))
        targets.add(module.syntax.target)
    chips = {found[1] for each in targets if (found := TARGET.fullmatch(each))}
    if len(targets) != 1 or not chips:
        raise Unproven(f"{recording.name}: its launches are compiled for {', '.join(sorted(targets))}")
    return ("sm_90" if chips == {"90"} else "sm_100"), launches


def _undetermined(kernel: Kernel, variables: Iterable[GlobalVariable]) -> str:
    """Return how a kernel could tell the judge's launches from others, or ""."""
    if kept := [each.name for each in variables if not each.constant]:
        return f"may keep {kept[0]} from launch to launch; pass memory as an argument"
    for instr in kernel.instrs:
        for each in atoms(instr.operands):
            if isinstance(each, Special) and not DETERMINED.fullmatch(each.name.split(".")[0]):
                return f"reads {each.name} in PTX line {instr.line}, which no call determines"
    return ""


@lru_cache(maxsize=64)
def _read(module: LoadedModule, name: str) -> tuple[Kernel, dict[int, Product | str], str]:
    """Return a kernel, its products, copies and exchanges by place, and what `_undetermined` says of it."""
    kernel = module.kernel(name)
    written = _written(kernel)
    read = ((at, _product(instr, written) or _moved(instr)) for at, instr in enumerate(kernel.instrs))
    return kernel, {at: each for at, each in read if each}, _undetermined(kernel, module.syntax.variables)


def _shown(launched: Launched, kernel: Kernel, names: list[str], found: list[Product | str]) -> Shown:
    """Return what a launch shows by some instructions. names: of the call's tensors, which are its first values."""
    products = [each for each in found if isinstance(each, Product)]
    of_v = [each for each in products if each.v]
    return Shown(
        ctas=math.prod(launched.grid),
        cluster=math.prod(launched.cluster or kernel.reqnctapercluster or (1,)),
        products=frozenset("PV" if each.v else "QK" for each in products),
        p_from=frozenset(each.a if each.v == "b" else "shared memory" for each in of_v),
        mma_ctas=frozenset(each.ctas for each in products),
        accumulators=len({each.accumulator for each in of_v}),
        columns=frozenset(each.columns for each in products) if any(each.v == "a" for each in of_v) else frozenset(),
        copies=frozenset(each for each in found if isinstance(each, str) and each != EXCHANGE),
        reads=frozenset(names[each.value] for each in launched.relocations if 0 <= each.value < len(names)),
        exchanges=EXCHANGE in found,
    )


def _product(instr: Instr, written: dict[Reg, list[Instr]]) -> Product | None:
    """Return the product of a matrix instruction, None for another one. Raises ValueError if it varies."""
    if instr.opcode == "wgmma.mma_async":
        shape = next(filter(None, map(COLUMNS.fullmatch, instr.modifiers)))
        *_, of_a, of_b = instr.operands  # whether they are transposed; in registers, A is not
        in_registers = isinstance(instr.operands[1], Vector)
        v = "b" if of_b == Imm(1) else "a" if of_a == Imm(1) and not in_registers else ""
        return Product(v, "registers" if in_registers else "shared memory", int(shape[1]), 1, "")
    if instr.opcode != "tcgen05.mma":
        return None
    kind = next(KINDS[each] for each in instr.modifiers if each in KINDS)
    to, a, _, descriptor = instr.operands[:4]
    shape_of = InstructionDescriptor.decode(_constant(descriptor, instr, written), kind)
    return Product(
        "a" if shape_of.a_mn_major else "b" if shape_of.b_mn_major else "",  # with V as A, P is transposed as well
        "tensor memory" if isinstance(a, Address) else "shared memory",
        shape_of.n,
        2 if "cta_group::2" in instr.modifiers else 1,
        _place(to, written),
    )


def _constant(operand: Operand, instr: Instr, written: dict[Reg, list[Instr]]) -> int:
    """Return the value of an operand that is a constant. Raises ValueError."""
    if isinstance(operand, Reg) and [each.opcode for each in written[operand]] == ["mov"]:
        operand = written[operand][0].operands[1]
    if not isinstance(operand, Imm):
        raise ValueError(f"PTX line {instr.line}: the instruction descriptor is no constant")
    return operand.value


def _place(operand: Operand, written: dict[Reg, list[Instr]]) -> str:
    """Return an address as a base, and the sum of the constants that were added to it."""
    base, offset = operand, 0
    if isinstance(operand, Address):
        base, offset = operand.base, operand.offset
    for _ in range(DEEPEST):
        by = written.get(base, []) if isinstance(base, Reg) else []
        if len(by) != 1 or by[0].opcode != "add" or not isinstance(by[0].operands[2], Imm):
            break
        base, offset = by[0].operands[1], offset + by[0].operands[2].value
    return f"{base}+{offset}"


def _written(kernel: Kernel) -> dict[Reg, list[Instr]]:
    """Return the instructions that may write each register: those that have it as their first operand."""
    found = defaultdict[Reg, list[Instr]](list)
    for instr in kernel.instrs:
        for operand in instr.operands[:1]:
            for each in atoms((operand,)) if isinstance(operand, Reg | Vector | Dual) else ():
                if isinstance(each, Reg):
                    found[each].append(instr)
    return found


def _moved(instr: Instr) -> str:
    """Return how an instruction copies from global to shared memory, EXCHANGE, or "" for others."""
    if instr.opcode == "cp.async.bulk.tensor" and "global" in instr.modifiers[2:3]:
        return "TMA gather" if "tile::gather4" in instr.modifiers else "TMA"
    return {"cp.async": "cp.async", EXCHANGE: EXCHANGE}.get(instr.opcode, "")
