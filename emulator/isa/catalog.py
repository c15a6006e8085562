"""All instructions: importing this fills the registry."""

from emulator.isa import (
    arithmetic,
    atomics,
    barriers,
    bits,
    bulk,
    compare,
    control,
    convert,
    copies,
    functions,
    lanes,
    launch_control,
    matrix,
    memory,
    moves,
    tensor,
)

__all__ = [
    "arithmetic",
    "atomics",
    "barriers",
    "bits",
    "bulk",
    "compare",
    "control",
    "convert",
    "copies",
    "functions",
    "lanes",
    "launch_control",
    "matrix",
    "memory",
    "moves",
    "tensor",
]
