"""Mutation testing of the kernel: wrong versions made from its sources, run against the cases that use the line."""
