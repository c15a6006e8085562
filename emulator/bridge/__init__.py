"""Between CuTeDSL and the emulator: compiled host functions call their CUDA driver, and find this package instead."""
