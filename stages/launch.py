"""Launches of the kernel for a case, with guarded outputs and poisoned inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

import kernel
from stages.buffers import Poisoned, bytes_of, check_inputs, gapped, moved
from stages.caches import NAMES
from stages.calls import Tensors, callers, has_topk, launches
from stages.case import Case
from stages.inputs import POISONS, Inputs, Poison, poisoned, poisoned_compressed
from stages.served import out_of_range, placed_caches


@dataclass(frozen=True)
class Order:
    """The order in which a launch has the sequences and heads of a case, each a permutation.

    Lengths and sinks are those of the case for every seed: code that has them as constants is right in their own order.
    """

    sequences: torch.Tensor
    heads: torch.Tensor

    @staticmethod
    def of(case: Case, seed: int, trial: int) -> Order:
        """Return an order: of the heads by seed, for rows of a tile share decisions; of the sequences by trial too."""
        heads = torch.randperm(case.heads, generator=torch.Generator().manual_seed(seed))
        return Order(torch.arange(case.batch).roll(seed + trial), heads)

    def apply(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor of a call in this order."""
        if name in NAMES:  # the pages of all sequences
            return tensor
        if name == "sink":
            return tensor[self.heads]
        ordered = tensor[self.sequences]
        ordered = ordered[:, :, self.heads] if name == "q" else ordered
        return ordered if tensor.is_contiguous() else tensor.copy_(ordered)  # one with gaps is a copy

    def undo(self, attention: kernel.Attention) -> kernel.Attention:
        """Return results in the order of the case."""
        sequences, heads = self.sequences.argsort(), self.heads.argsort()
        found = {name: tensor for name, tensor in vars(attention).items() if tensor is not None}
        return kernel.Attention(**{name: tensor[sequences][:, :, heads] for name, tensor in found.items()})


def launch(
    case: Case,
    inputs: Inputs,
    torch_device: str,
    poison: Poison = POISONS[0],
    order: Order | None = None,
    guarded: bool = True,
) -> kernel.Attention:
    """Launch a case once, or once per branch with a merge. Keys that must not be read are poisoned.

    guarded: pass buffers for the results, with guard elements; otherwise the call allocates its results.
    Raises WroteOutside if a guard element next to an output was overwritten, or the memory of an input.
    """
    tensors = placed(case, inputs, torch_device, poison)
    if order is not None:
        tensors = {name: order.apply(name, tensor) for name, tensor in tensors.items()}
    before = {name: held.clone() for name, held in bytes_of(tensors).items()}
    buffers = outputs(case, tensors["q"]) if guarded else []
    attention = callers[-1].call(case, tensors, [each.attention for each in buffers] or [None] * launches(case))
    for each in buffers:
        each.check_guards()
    check_inputs(before, tensors)
    return attention if order is None else order.undo(attention)


def prepared(case: Case, inputs: Inputs, torch_device: str) -> Callable[[], kernel.Attention]:
    """Return the call of a case with its inputs on the device already. Its launches allocate their outputs."""
    tensors = placed(case, inputs, torch_device)
    return lambda: callers[-1].call(case, tensors, [None] * launches(case))


def outputs(case: Case, q: torch.Tensor) -> list[Poisoned]:
    """Return guarded buffers for the outputs of each launch of a case."""
    partials, flat = case.writes_partials, has_topk(case)
    maxima = case.served is not None and case.served.maxima
    like = q[..., : case.value_dim]
    return [Poisoned.like(like, partials, case.strided, flat, maxima) for _ in range(launches(case))]


def placed(case: Case, inputs: Inputs, torch_device: str, poison: Poison = POISONS[0]) -> Tensors:
    """Return the tensors of a case's call on the device, as the case lays them out."""

    def laid_out(tensor: torch.Tensor | None) -> torch.Tensor | None:
        if tensor is None or not case.strided:
            return tensor
        return gapped(tensor, flat=has_topk(case))

    tensors = {"q": laid_out(inputs.q), "sink": case.sink}
    if case.served is not None:
        tensors |= placed_caches(inputs.caches, poison.k)
    else:
        tensors |= {
            "k": laid_out(poisoned(case, inputs.k, poison.k)),
            "v": None if inputs.v is None else laid_out(poisoned(case, inputs.v, poison.v)),
            "compressed": laid_out(poisoned_compressed(case, inputs, poison.k)),
            "lens": None if case.lens is None else torch.tensor(case.lens, dtype=torch.int32),
            **_which_blocks(case, inputs),
        }
    return {name: moved(tensor, torch_device) for name, tensor in tensors.items() if tensor is not None}


def _which_blocks(case: Case, inputs: Inputs) -> dict[str, torch.Tensor | None]:
    """Return the lengths or top-k indices that say which compressed keys a token sees."""
    if case.compressed is None:
        return {}
    if inputs.topk_indices is None or inputs.topk_lens is None:
        return {"seq_lens": case.seq_lens}
    lens, topk = inputs.topk_lens, inputs.topk_indices.shape[2]
    if case.compressed.out_of_range:
        lens = out_of_range(lens, topk)
    return {"topk_indices": inputs.topk_indices, "topk_lens": lens if case.compressed.lens else None}
