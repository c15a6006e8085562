"""The host side of the emulated B200: torch, CUDA and CuTeDSL as a GPU script sees them.

The entry point is `session.emulated_host()`.
"""
