"""All instructions: importing this fills the registry."""

from emulator.isa import (
    arithmetic,
    barriers,
    bits,
    bulk,
    compare,
    control,
    convert,
    lanes,
    launch_control,
    memory,
    moves,
    tensor,
)

__all__ = [
    "arithmetic",
    "barriers",
    "bits",
    "bulk",
    "compare",
    "control",
    "convert",
    "lanes",
    "launch_control",
    "memory",
    "moves",
    "tensor",
]
