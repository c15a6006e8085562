"""Measurements of the emulator's speed against a peer, and of the clock's error against real GPUs."""
