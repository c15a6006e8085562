"""The host side of the emulated B200: torch, CUDA and CuTeDSL as a script written for a GPU sees them.

`session.emulated_host()` is the way in.
"""
