"""A launch as the host asks for it: its kernel, its global memory, its special registers and its counts."""
