"""The float64 reference of a case."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

import kernel
from kernel.reference import Partial, branch, merge, selection, weights
from stages.case import Case
from stages.inputs import Inputs
from stages.metrics import Array
from stages.served import CacheInputs

Outputs = dict[str, Array]


class Seen(NamedTuple):
    """Query rows that see the same keys, in float64.

    rows: their numbers among the rows of the outputs. q [rows, head_dim], keys [n, head_dim], values [n, value_dim].
    repeats [n]: how many of the keys equal this one. sink [rows]: sink logits, -inf without sinks.
    """

    rows: NDArray[np.intp]
    q: Array
    keys: Array
    values: Array
    repeats: Array
    sink: Array


def reference(case: Case, inputs: Inputs, visible: torch.Tensor | None = None) -> Outputs:
    """Return the expected outputs in float64, rows flattened. `visible` replaces the mask of the case."""
    parts = partials(case, inputs, visible)
    whole, out = joined(parts), merge(parts, case.sink)
    lse = out.lse if case.served is None else out.lse.where(out.lse > -torch.inf, case.served.empty_lse)
    return outputs_of(case, kernel.Attention(o=out.o, u=whole.u, lse=lse, m=whole.m))


def partials(case: Case, inputs: Inputs, visible: torch.Tensor | None = None) -> list[Partial]:
    """Return the partials of the branches in float64: window and compressed keys, or each cache."""
    if case.served is not None:
        return [_of_cache(inputs.q, cache, case.value_dim, case.scale) for cache in inputs.caches]
    parts = [
        branch(inputs.q, inputs.k, inputs.v, scale=case.scale, visible=case.visible if visible is None else visible)
    ]
    if inputs.compressed is None:
        return parts
    if inputs.topk_indices is None:
        return [*parts, branch(inputs.q, inputs.compressed, scale=case.scale, visible=case.visible_blocks)]
    return [
        *parts,
        selection(
            inputs.q,
            inputs.compressed,
            topk_indices=inputs.topk_indices,
            topk_lens=inputs.topk_lens,
            scale=case.scale,
        ),
    ]


@lru_cache(maxsize=4)  # most negative controls change one of two caches, or none
def _of_cache(q: torch.Tensor, cache: CacheInputs, value_dim: int, scale: float | None) -> Partial:
    """Return the partial of a cache in float64."""
    keys = cache.keys.expand(len(q), -1, -1)
    return selection(
        q,
        keys,
        None if value_dim == keys.shape[2] else keys[..., :value_dim],
        topk_indices=cache.indices,
        topk_lens=cache.counts.clamp(0, cache.indices.shape[2]),
        scale=scale,
    )


def joined(parts: list[Partial]) -> Partial:
    """Return the partial over the keys of all branches together."""
    m = torch.stack([part.m for part in parts]).amax(0)
    u = torch.stack([part.u * weights(part.m, m)[..., None] for part in parts]).sum(0)
    return Partial(u, torch.logsumexp(torch.stack([part.lse for part in parts]), 0), m)


def outputs_of(case: Case, attention: kernel.Attention) -> Outputs:
    """Return the results as float64 arrays: O and U [rows, value_dim], lse and m [rows]."""
    tensors = {"O": attention.o, "U": attention.u, "lse": attention.lse, "m": attention.m}
    outputs = {}
    for name in case.tensors:
        tensor = tensors[name]
        assert tensor is not None, f"the launch returned no {name}"
        outputs[name] = _float64(tensor.flatten(0, 2))
    return outputs


def _float64(tensor: torch.Tensor) -> Array:
    array: Array = tensor.detach().cpu().double().numpy()
    return array


def seen(case: Case, inputs: Inputs) -> Iterator[Seen]:
    """Yield the query rows of a case in groups that see the same keys. Groups without a key are left out."""
    sinks = np.full(case.heads, -np.inf) if case.sink is None else case.sink.double().numpy()
    masks = Masks.of(case)
    for sequence in range(case.batch):
        alike: dict[bytes, list[int]] = {}
        for token in range(case.tokens):
            found = masks.places(case, inputs, sequence, token)
            same = [each.numpy().tobytes() for each in found] if not case.by_token else [token.to_bytes(4)]
            alike.setdefault(b" ".join(same), []).append(token)
        for tokens in alike.values():
            keys, values = keys_of(case, inputs, sequence, tokens[0], masks)
            if not len(keys):
                continue
            rows = ((sequence * case.tokens + np.array(tokens)[:, None]) * case.heads + np.arange(case.heads)).ravel()
            q = inputs.q[sequence, tokens].flatten(0, 1).double().numpy()
            yield Seen(rows, q, keys, values, _repeats(keys), np.tile(sinks, len(tokens)))


def keys_of(case: Case, inputs: Inputs, sequence: int, token: int, masks: Masks) -> tuple[Array, Array]:
    """Return the keys and values that a token sees, in the order of `Masks.places`."""
    found = masks.places(case, inputs, sequence, token)
    if case.served is not None:
        of_caches = zip(inputs.caches, found, strict=True)
        keys = [cache.keys[cache.indices[sequence, token, at].long()] for cache, at in of_caches]
        values = [each[:, : case.value_dim] for each in keys]
    else:
        window, *blocks = found
        keys = [inputs.k[sequence, window]]
        values = keys if inputs.v is None else [inputs.v[sequence, window]]
        if blocks and inputs.compressed is not None:
            topk = inputs.topk_indices
            named = blocks[0] if topk is None else topk[sequence, token, blocks[0]].long()
            keys = [*keys, inputs.compressed[sequence, named]]
            values = [*values, inputs.compressed[sequence, named]]
    return torch.cat(keys).double().numpy(), torch.cat(values).double().numpy()


class Masks(NamedTuple):
    """Visible keys of the window [batch, tokens, keys], and visible blocks [batch, tokens, blocks] if there are any."""

    window: torch.Tensor
    blocks: torch.Tensor | None

    @staticmethod
    def of(case: Case) -> Masks:
        return Masks(case.visible, case.visible_blocks if case.compressed is not None else None)

    def places(self, case: Case, inputs: Inputs, sequence: int, token: int) -> list[torch.Tensor]:
        """Return where the keys of a token lie: keys of the window and blocks or top-k entries; entries of caches."""
        if case.served is not None:
            return [torch.nonzero(cache.counted()[sequence, token])[:, 0] for cache in inputs.caches]
        found = [torch.nonzero(self.window[sequence, token])[:, 0]]
        if inputs.compressed is None or self.blocks is None:
            return found
        if inputs.topk_indices is None or inputs.topk_lens is None:
            return [*found, torch.nonzero(self.blocks[sequence, token])[:, 0]]
        entries = inputs.topk_indices[sequence, token, : int(inputs.topk_lens[sequence, token])]
        return [*found, torch.nonzero((entries >= 0) & (entries < case.blocks))[:, 0]]


def _repeats(keys: Array) -> Array:
    """Return how many keys equal each key."""
    _, which, counts = np.unique(keys @ _HASH[: keys.shape[1]], return_inverse=True, return_counts=True)
    repeats: Array = counts[which].astype(float)
    return repeats


#: Random weights: two keys have the same weighted sum only if they are equal.
_HASH = np.random.default_rng(0).integers(1, 2**20, 1024).astype(float)
