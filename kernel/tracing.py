"""Calls that torch traces: for torch.compile, torch.export and FakeTensors.

Such a call allocates its results by torch operations, and goes through an operator of kernel.operators, which writes to
them. Other calls go to the launch directly, because torch's dispatch of an operator takes 20 to 40 us.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

from kernel.errors import ArgumentError
from kernel.tensors import Attention

OPERATORS: Any = torch.ops.dsv4_attention
TRACERS = "FakeTensorMode", "ProxyTorchDispatchMode"


def traced(q: Any) -> bool:
    """Return whether torch traces the call with these queries, so that they may have no memory."""
    if torch.compiler.is_compiling() or (type(q) is not torch.Tensor and isinstance(q, torch.Tensor)):
        return True
    if torch._C._len_torch_dispatch_stack() == 0:
        return False
    return any(type(mode).__name__ in TRACERS for mode in _get_current_dispatch_mode_stack())


def buffers(q: torch.Tensor, columns: int, partials: bool = False, maxima: bool = False) -> Attention:
    """Return results without values for queries [..., D], with a number of columns of o."""
    if q.requires_grad and torch.is_grad_enabled():
        raise ArgumentError("q.requires_grad", True, "False, or a call under torch.no_grad(): no backward pass")
    rows = q.shape[:-1]
    o, lse = q.new_empty((*rows, columns)), q.new_empty(rows, dtype=torch.float32)
    u = q.new_empty(q.shape, dtype=torch.float32) if partials else None
    return Attention(o, lse, u, q.new_empty(rows, dtype=torch.float32) if partials or maxima else None)


def split_number(splits: int | Literal["auto"]) -> int:
    """Return the splits of an operator, whose arguments have one type: 0 is "auto"."""
    return 0 if splits == "auto" else splits
