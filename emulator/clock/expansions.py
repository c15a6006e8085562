"""PTX instructions that ptxas expands into several of machine code, by the pipes that these use.

Counted in what ptxas 13.0 makes of each for sm_90a and sm_100a, which are alike, on the path that usual numbers take.
A division of integers is not among them: it counts as one instruction of the MUFU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ..ptx.syntax import Instr

FMA, ALU, MUFU = 1, 2, 3
"""Pipes, numbered as in `segment.PIPES`."""
SCALED: Final = (ALU, FMA, MUFU, FMA)
"""Without .ftz, a denormal argument is scaled before the MUFU, which takes it for 0, and the result behind it."""
APPROXIMATE: Final[Mapping[str, tuple[Sequence[int], Sequence[int]]]] = {
    "rsqrt": (SCALED, (MUFU,)),
    "ex2": (SCALED, (MUFU,)),
    "lg2": (SCALED, (MUFU,)),
    "sqrt": (SCALED, (MUFU,)),
    "rcp": ((ALU, ALU, ALU, ALU, FMA, MUFU, FMA), (MUFU,)),
    "sin": ((FMA, MUFU), (FMA, MUFU)),
    "cos": ((FMA, MUFU), (FMA, MUFU)),
    "div": ((ALU, FMA, FMA, MUFU, FMA), (MUFU, FMA)),
}
"""Functions of f32 without and with .ftz."""
FULL: Final = (ALU, ALU, FMA, FMA, FMA, MUFU, FMA, FMA), (ALU, FMA, MUFU, FMA, FMA)
"""div.full without and with .ftz."""
ROUNDED: Final[Mapping[str, Sequence[int]]] = {
    "div": (MUFU, MUFU, FMA, FMA, FMA, FMA, FMA),
    "rcp": (ALU, ALU, ALU, MUFU, FMA, FMA, FMA),
    "sqrt": (MUFU, ALU, ALU, FMA, FMA, FMA, FMA),
}
"""The same to the nearest number: the fast path, behind a check."""
BITS: Final = {"popc": (MUFU,), "brev": (MUFU,), "bfind": (MUFU,), "clz": (MUFU, ALU)}
"""16 lanes a cycle and SM (CUDA programming guide, compute capability 9.0), as the MUFU."""


def pipes(instr: Instr) -> Sequence[int]:
    """Return the pipes of the instructions that ptxas makes of one, each of which needs the one before it.

    None for an instruction that stays one.
    """
    opcode, modifiers = instr.opcode, instr.modifiers
    of = modifiers[-1] if modifiers else ""
    if of == "f32" and opcode in APPROXIMATE:
        if "full" in modifiers:
            return FULL["ftz" in modifiers]
        return APPROXIMATE[opcode]["ftz" in modifiers] if "approx" in modifiers else ROUNDED[opcode]
    if of in ("f16x2", "bf16x2") and opcode in ("ex2", "tanh"):
        return MUFU, MUFU, ALU
    return BITS.get(opcode, ())
