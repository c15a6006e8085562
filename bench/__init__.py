"""Measurements: how fast the emulator is, beside a named peer on the same problem in the same run."""
