"""Instruction semantics: one file per family, registered in `registry`."""
