"""Names in the debugger: source lines, warps, CTAs, mbarriers, shared variables, memory ranges."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from ..chip import RANK_SHIFT
from ..machine.formats.tensormap import TensorMap
from ..machine.launch.globalmem import host_bytes
from ..machine.launch.shared_names import shared_variables, source_name
from ..machine.launch.source import SourcePlace, source_place
from ..machine.memory.shared import OFFSET_MASK
from ..machine.synchronisation.mbarrier import MBarrier
from ..machine.topology import Cta, Warp
from ..ptx.syntax import Kernel, Variable
from ..tensors import NamedTensor

_TRIPLE: Final = re.compile(r"\(?(\d+)(?:,(\d+))?(?:,(\d+))?\)?")
_ELEMENT: Final = re.compile(r"(.+?)\[([\d:,\s]*)\]")


@dataclass(frozen=True)
class Line:
    """A place to stop: a line of the PTX, or of a source file whose path ends with `file`."""

    number: int
    file: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.number}" if self.file else f"PTX line {self.number}"

    def instructions(self, kernel: Kernel) -> frozenset[int]:
        """Return the indices of the instructions at which a warp enters the line."""
        at = [i for i in range(len(kernel.instrs)) if self._holds(kernel, i)]
        return frozenset(i for i in at if i - 1 not in at or i in kernel.labels.values())

    def _holds(self, kernel: Kernel, at: int) -> bool:
        if not self.file:
            return kernel.instrs[at].line == self.number
        place = source_place(kernel, at)
        return place is not None and place.line == self.number and _same_file(place.file, self.file)


def _same_file(path: str, wanted: str) -> bool:
    parts, last = Path(path).parts, Path(wanted).parts
    return parts[-len(last) :] == last


def line_of(text: str, kernel: Kernel) -> Line:
    """Read a place: FILE:LINE, ptx:LINE, or LINE of the kernel's only source file (of the PTX if it has none).

    Raises ValueError if the kernel has no instruction there.
    """
    file, _, number = text.rpartition(":")
    if not number.isdecimal():
        raise ValueError(f"line {text!r}; allowed: LINE, FILE:LINE or ptx:LINE")
    files = kernel.files
    if not file and len(files) > 1:
        names = ", ".join(sorted(Path(name).name for name in files))
        raise ValueError(f"line {text}: the kernel has several source files; give FILE:{number} of {names}")
    chosen = "" if file == "ptx" else file or next(iter(files), "")
    line = Line(int(number), chosen)
    if not line.instructions(kernel):
        raise ValueError(f"{line} has no instruction of {kernel.name}; lines that have: {_near(kernel, line)}")
    return line


def _near(kernel: Kernel, line: Line) -> str:
    if line.file:
        places = (source_place(kernel, i) for i in range(len(kernel.instrs)))
        known = {place.line for place in places if place is not None and _same_file(place.file, line.file)}
    else:
        known = {instr.line for instr in kernel.instrs}
    nearest = sorted(known, key=lambda number: abs(number - line.number))[:6]
    return ", ".join(map(str, sorted(nearest))) or "none"


def where(kernel: Kernel, at: int) -> str:
    """Describe an instruction: PTX line and text, then its source line if known."""
    instr, place = kernel.instrs[at], source_place(kernel, at)
    return f"PTX line {instr.line}: {shortened(instr.text)}" + (f"\n  {place}" if place is not None else "")


def brief(kernel: Kernel, at: int) -> str:
    """Describe an instruction in one line: its source line if known, else its PTX line."""
    instr, place = kernel.instrs[at], source_place(kernel, at)
    if place is None:
        return f"PTX line {instr.line}: {shortened(instr.text)}"
    return f"{place}  [PTX line {instr.line}: {instr.opcode}]"


def source_line(kernel: Kernel, at: int) -> SourcePlace | int:
    """Return the source place of an instruction, or its PTX line if the compiler gave none."""
    return source_place(kernel, at) or kernel.instrs[at].line


def shortened(text: str) -> str:
    """Return an instruction's text with its long vectors cut."""
    return re.sub(r"\{([^,{}]+),[^{}]*,[^{}]*,([^{}]+)\}", r"{\1, ...,\2}", text.strip())


def triple(text: str) -> tuple[int, int, int]:
    """Read a CTA's index: X, X,Y or X,Y,Z. Raises ValueError."""
    match = _TRIPLE.fullmatch(text)
    if match is None:
        raise ValueError(f"CTA {text!r}; allowed: X, X,Y or X,Y,Z")
    x, y, z = (int(part or 0) for part in match.groups())
    return x, y, z


def integers(text: str) -> range:
    """Read a number N or a range FIRST:END. Raises ValueError."""
    first, colon, end = text.partition(":")
    try:
        start = int(first or "0", 0)
        found = range(start, int(end, 0) if colon else start + 1)
    except ValueError:
        raise ValueError(f"range {text!r}; allowed: NUMBER or FIRST:END") from None
    if not found:
        raise ValueError(f"range {text!r} is empty; END comes after the last number")
    return found


def mbarriers(ctas: Sequence[Cta]) -> list[MBarrier]:
    """Return the live mbarriers of CTAs, in order of initialisation."""
    return [b for cta in ctas for b in sorted(cta.smem.mbarriers.values(), key=lambda b: b.order)]


def barrier_name(barrier: MBarrier) -> str:
    """Return an mbarrier's name, or its number if nothing names it."""
    return barrier.name or f"#{barrier.order}"


def is_named(barrier: MBarrier, name: str) -> bool:
    """Return whether `name` means an mbarrier: its name, #NUMBER, or its shared address."""
    address = hex(barrier.offset), hex(barrier.cta.window + barrier.offset)
    return name in (barrier_name(barrier), f"#{barrier.order}", str(barrier.order), *address)


def variable_named(cta: Cta, name: str) -> Variable | None:
    """Return a shared variable by its name in the source or in the PTX."""
    known = shared_variables(cta.launch.kernel)
    return next((each for each in known if name in (each.name, source_name(each.name))), None)


def shared_range(cta: Cta, name: str) -> tuple[int, int] | None:
    """Return (offset, bytes) of a shared variable, or of what ADDRESS or ADDRESS+BYTES names; None for others."""
    variable = variable_named(cta, name)
    if variable is not None:
        return variable.offset, variable.size
    address, _, size = name.partition("+")
    try:
        at = int(address, 0)
    except ValueError:
        return None
    return at & OFFSET_MASK if at >> RANK_SHIFT == cta.rank else at, int(size or "4", 0)


def warp_name(warp: Warp) -> str:
    """Name a warp with its CTA."""
    return f"warp {warp.index} of CTA {warp.cta.name}"


def sliced(text: str, tensors: Mapping[str, NamedTensor]) -> tuple[NamedTensor, tuple[int | slice, ...]]:
    """Read NAME or NAME[3, 0:8] of the program's tensors. Raises ValueError."""
    match = _ELEMENT.fullmatch(text.strip())
    name, inside = (match[1], match[2]) if match is not None else (text.strip(), "")
    if name not in tensors:
        raise ValueError(f"tensor {name!r}; the launching program has {', '.join(sorted(tensors)) or 'none'}")
    tensor, index = tensors[name], list[int | slice]()
    for part in filter(None, (part.strip() for part in inside.split(","))):
        if ":" in part:
            first, last = (int(end) if end else None for end in part.split(":"))
            index.append(slice(first, last))
        else:
            index.append(int(part))
    if len(index) > len(tensor.shape):
        raise ValueError(f"{text}: {name} has {len(tensor.shape)} dimensions")
    return tensor, tuple(index)


def tensor_of_map(tensor: TensorMap, tensors: Mapping[str, NamedTensor]) -> str:
    """Name the tensor of a tensor map, by the address at which it starts."""
    for each in tensors.values():
        size = int(np.prod(each.shape)) * each.width
        if each.address <= tensor.address < each.address + max(size, 1):
            return each.name
    return f"tensor at {tensor.address:#x}"


def bytes_at(address: int, size: int) -> bytes:
    """Return bytes of global memory."""
    return host_bytes(address, size).tobytes()
