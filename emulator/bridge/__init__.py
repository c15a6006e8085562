"""The bridge between CuTeDSL and the emulator: it answers the CUDA calls of compiled host functions."""
