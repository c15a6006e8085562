"""Measurements: how fast the emulator is, beside a named peer in the same run; how wrong the clock, beside a B200."""
