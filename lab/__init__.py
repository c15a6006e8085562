"""Measurements: the emulator's speed, its clock against GPUs, wrong versions of the kernel, and the tables of pages."""
