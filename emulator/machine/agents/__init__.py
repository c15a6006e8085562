"""Asynchronous agents: TMA, bulk copies, cp.async, the tensor core of tcgen05 and that of wgmma."""
