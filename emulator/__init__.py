"""A functional emulator of the B200 that runs the PTX of any CuTeDSL program on the CPU."""
