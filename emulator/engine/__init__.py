"""The execution engine: analyses of instructions, places of registers, and the code of basic blocks."""
