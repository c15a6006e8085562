"""Output buffers that show what a kernel did not write, and what it wrote beside them."""

from __future__ import annotations

from dataclasses import dataclass

import torch

import kernel

GUARD = 1024  # elements on either side of an output; whole rows of every head dim, so alignment stays
GUARD_VALUE = -7.25  # exact in bf16; no output of normal inputs hits all guards by chance


class WroteOutside(AssertionError):
    """Guard elements beside an output changed."""


@dataclass(frozen=True)
class Poisoned:
    """Outputs full of NaN, each in the middle of a buffer with guards at both ends."""

    attention: kernel.Attention
    wholes: dict[str, torch.Tensor]

    @staticmethod
    def like(q: torch.Tensor, partials: bool) -> Poisoned:
        """Buffers for the outputs of q [batch, tokens, heads, head_dim], on its device."""
        shapes = {"o": (q.shape, torch.bfloat16), "lse": (q.shape[:3], torch.float32)}
        if partials:
            shapes |= {"u": (q.shape, torch.float32), "m": (q.shape[:3], torch.float32)}
        wholes, views = {}, {}
        for name, (shape, dtype) in shapes.items():
            whole = torch.full((shape.numel() + 2 * GUARD,), GUARD_VALUE, dtype=dtype, device=q.device)
            wholes[name] = whole
            views[name] = whole[GUARD:-GUARD].fill_(torch.nan).view(shape)
        return Poisoned(kernel.Attention(**views), wholes)

    def check_guards(self) -> None:
        """Raises WroteOutside naming the output and the elements beside it that were written."""
        for name, whole in self.wholes.items():
            end = len(whole) - 2 * GUARD
            around = {"before": whole[:GUARD], "after": whole[GUARD + end :]}
            for side, guard in around.items():
                touched = (guard != GUARD_VALUE).nonzero()[:, 0].tolist()
                if touched:
                    said = f"{len(touched)} of the {GUARD} elements {side} {name} were written"
                    raise WroteOutside(f"{said}: {touched[0]} to {touched[-1]} of them")
