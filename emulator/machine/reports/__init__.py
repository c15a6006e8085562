"""Findings as text: accesses that race, and loads of values that the program should not use."""
