"""The harness: it takes a change of the kernel to a verdict, and accepts or rejects it.

`client` runs on the user's machine, `host` on the target, and `judge` in the target's checkout. They all use `report`,
which writes and reads records.
"""
