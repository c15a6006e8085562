"""Asynchronous agents: TMA, bulk copies, cp.async, the tensor cores."""
