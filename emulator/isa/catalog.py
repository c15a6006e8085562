"""All instructions: importing this fills the registry."""

from emulator.isa import arithmetic, bits, compare, convert, lanes, moves

__all__ = ["arithmetic", "bits", "compare", "convert", "lanes", "moves"]
