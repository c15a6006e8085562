"""Machine code of PTX kernels: each instruction with its PTX line, its stall count and its scoreboards.

ptxas writes line numbers of its input into the machine code. The input here names its own lines, so that every machine
instruction says of which PTX line it was made. No GPU is needed.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from .errors import AssemblerError
from .machine_code import INSTALL, Resources, assemble, assembler, disassembler

FILE: Final = "k.ptx"
SCOREBOARDS: Final = 6
NO_SCOREBOARD: Final = 7
CONTROL_BIT: Final = 105 - 64
"""The first control bit in the second word of an instruction."""
_DEBUG: Final = re.compile(r"^\s*\.(loc|file)\b.*$")
_SECTION: Final = re.compile(r"^\s*\.section\b")
_SIZE: Final = re.compile(r"^\s*\.address_size\b")
_BETWEEN: Final = re.compile(r"[;{}:]\s*$")
"""The end of a line after which a statement may begin."""
_FUNCTION: Final = re.compile(r"^\s*\.section\s+\.text\.([^\s,]+),")
_LINE: Final = re.compile(rf'^\s*//## File "{re.escape(FILE)}", line (\d+)(?!.*inlined)')
_LABEL: Final = re.compile(r"^(\.L\w+):")
_INSTR: Final = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(@!?U?P[0-9T]+\s+)?(\S+?)(\s.*?)?\s*;\s+/\* 0x[0-9a-f]{16} \*/")
_SECOND: Final = re.compile(r"^\s*/\* 0x([0-9a-f]{16}) \*/")
_TARGET: Final = re.compile(r"`\((\.L\w+)\)")


WIDTHS: Final = {"64": 8, "128": 16, "256": 32}


class MachineTiming(Enum):
    """A class of machine instructions, as listed in sass.toml."""

    FMA = "fma"
    PACKED = "packed"
    ALU = "alu"
    CONVERT = "convert"
    MUFU = "mufu"
    LOAD = "load"
    STORE = "store"
    WARP_MMA = "warp_mma"
    WARPGROUP_MMA = "warpgroup_mma"
    MACHINE = "machine"
    BRANCH = "branch"


@cache
def timings() -> dict[str, MachineTiming]:
    """Return the classes of machine instructions by opcode."""
    listed = tomllib.loads((Path(__file__).parent / "sass.toml").read_text())
    return {opcode: MachineTiming(name) for name, opcodes in listed.items() for opcode in opcodes.split()}


@dataclass(frozen=True, slots=True)
class MachineInstr:
    """One machine instruction.

    opcode: without modifiers. text: opcode and operands, without guard. line: of the PTX that it was made of, 0 for
    none. guarded: it has a predicate, or is a branch on one. stall: cycles until the warp may issue the next one.
    writes, reads: the scoreboard that is released when its results are there, and when its operands are read.
    waits: the scoreboards that must be released before it issues. target: the label that it names.
    """

    opcode: str
    text: str
    line: int
    guarded: bool
    stall: int
    writes: int | None
    reads: int | None
    waits: tuple[int, ...]
    target: str | None

    @property
    def timing(self) -> MachineTiming | None:
        """The class of the instruction; None if it only takes an issue slot."""
        return timings().get(self.opcode)

    @property
    def lane_bytes(self) -> int:
        """The bytes of a lane that an access to memory moves."""
        return next((WIDTHS[word] for word in self.text.split()[0].split(".") if word in WIDTHS), 4)


@dataclass(frozen=True, slots=True)
class MachineBlock:
    """Machine instructions without a branch into them. labels: those of the first one."""

    labels: frozenset[str]
    instrs: tuple[MachineInstr, ...]


@dataclass(frozen=True)
class MachineKernel:
    """A kernel's machine code, in the order of addresses, with its resources. version: of ptxas."""

    resources: Resources
    blocks: tuple[MachineBlock, ...]
    version: str


def disassembled(ptx: str, target: str, lines: Collection[int]) -> dict[str, MachineKernel]:
    """Return the machine code of a module's kernels, by name.

    target: like sm_100a. lines: the lines on which instructions begin. Raises AssemblerError if ptxas or nvdisasm is
    missing or rejects the module.
    """
    path, (_, version) = disassembler(), assembler()
    with TemporaryDirectory(prefix="emulator-sass-") as folder:
        cubin = Path(folder) / "k.cubin"
        found = assemble(numbered(ptx, lines), target, cubin, "-lineinfo")
        done = subprocess.run([path, "-c", "-hex", "-g", cubin], capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssemblerError(f"nvdisasm cannot read what ptxas wrote: {done.stderr.strip()}; {INSTALL}")
    code = dict(_functions(done.stdout))
    return {name: MachineKernel(each, _blocks(code[name]), version) for name, each in found.items() if name in code}


def numbered(ptx: str, lines: Collection[int]) -> str:
    """Return a module whose line information names the lines of `ptx` itself.

    lines: those on which instructions begin.
    """
    found: list[str] = []
    skipped, between = False, True
    for number, line in enumerate(ptx.splitlines(), 1):
        code = line.partition("//")[0].rstrip()
        if skipped or _SECTION.match(code):  # debug sections end with a brace of their own line
            skipped = not code.endswith("}")
            continue
        if _DEBUG.match(code):
            continue
        if number in lines and between:
            found.append(f".loc 1 {number} 0")
        found.append(line)
        if _SIZE.match(code):
            found.append(f'.file 1 "{FILE}"')
        between = _BETWEEN.search(code) is not None if code else between
    return "\n".join(found) + "\n"


def _functions(listing: str) -> Iterator[tuple[str, list[str | MachineInstr]]]:
    """Yield each function of nvdisasm's listing with its labels and instructions."""
    name, line = "", 0
    items: list[str | MachineInstr] = []
    first: re.Match[str] | None = None
    for text in listing.splitlines():
        if function := _FUNCTION.match(text):
            if name:
                yield name, items
            name, line, items = function[1], 0, []
        elif text.lstrip().startswith(".section"):
            if name:
                yield name, items
            name = ""
        elif not name:
            continue
        elif at := _LINE.match(text):
            line = int(at[1])
        elif label := _LABEL.match(text):
            items.append(label[1])
        elif instr := _INSTR.match(text):
            first = instr
        elif first is not None and (second := _SECOND.match(text)):
            items.append(_instr(first, int(second[1], 16) >> CONTROL_BIT, line))
            first = None
    if name:
        yield name, items


def _instr(text: re.Match[str], control: int, line: int) -> MachineInstr:
    """Return an instruction. control: its control bits, the stall count first."""
    writes, reads, waits = control >> 5 & 7, control >> 8 & 7, control >> 11 & 63
    target = _TARGET.search(text[4] or "")
    return MachineInstr(
        text[3].partition(".")[0],
        f"{text[3]}{text[4] or ''}",
        line,
        text[2] is not None or (text[3].startswith("BRA") and "," in (text[4] or "")),
        control & 15,
        None if writes == NO_SCOREBOARD else writes,
        None if reads == NO_SCOREBOARD else reads,
        tuple(board for board in range(SCOREBOARDS) if waits >> board & 1),
        None if target is None else target[1],
    )


def _blocks(items: list[str | MachineInstr]) -> tuple[MachineBlock, ...]:
    """Return basic blocks: cut before each label that an instruction names, and after each that names one."""
    named = {item.target for item in items if isinstance(item, MachineInstr)}
    blocks: list[MachineBlock] = []
    labels: set[str] = set()
    instrs: list[MachineInstr] = []

    def cut() -> None:
        if instrs:
            blocks.append(MachineBlock(frozenset(labels), tuple(instrs)))
            labels.clear()
            instrs.clear()

    for item in items:
        if isinstance(item, str):
            if item in named:
                cut()
                labels.add(item)
            continue
        instrs.append(item)
        if item.timing is MachineTiming.BRANCH:
            cut()
    cut()
    return tuple(blocks)
