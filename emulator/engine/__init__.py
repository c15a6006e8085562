"""The execution engine: what a kernel's instructions read and write, where registers live, how blocks run."""
