"""Negative controls: deliberately wrong outputs, every one of which the comparison must reject.

Each is the correct output (the reference, rounded as the kernel rounds it) with one error of a kind that a broken
kernel makes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch

import kernel
from kernel.reference import Partial, causal_mask, merge, weights
from stages.caches import NAMES, Served
from stages.case import Case, Compressed
from stages.expected import Outputs, joined, outputs_of, partials, reference
from stages.inputs import Inputs
from stages.metrics import Array
from stages.served import CacheInputs
from stages.served_controls import PAIR_CONTROLS, cache_controls

SUB_TILE_ROWS = 128
SUB_TILE = 16  # columns of a sub-tile, and keys of one K step of the MMA
NEAR = 20  # a sink of smaller magnitude has weight compared with the keys

Edit = Callable[[Array], Array]
ChangeTopk = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
ChangeMask = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class NegativeControl:
    """A name, and a function that makes the wrong output from a case's inputs and its correct output."""

    name: str
    make: Callable[[Inputs, Outputs], Outputs]

    def __str__(self) -> str:
        return self.name


def right(case: Case, inputs: Inputs, visible: torch.Tensor | None = None) -> Outputs:
    """Return the output of a perfect kernel: the reference with O rounded to bf16 and the rest to fp32."""
    return stored(reference(case, inputs, visible))


def stored(outputs: Outputs) -> Outputs:
    """Return outputs rounded to the types in which a kernel stores them."""
    types = {"O": torch.bfloat16, "U": torch.float32, "lse": torch.float32, "m": torch.float32}
    return {name: _rounded(array, types[name]) for name, array in outputs.items()}


def negative_controls(case: Case) -> tuple[NegativeControl, ...]:
    """Return the negative controls of a case: correct outputs with one edit, and outputs over other keys.

    In peaked cases a single key has no weight in most rows, so controls that add or drop one key are left out.
    """
    if case.served is not None:
        return (*_edits(case), *_not_rescaled(case), *served_controls(case, case.served), *_other_sinks(case))
    if case.peak > 1:
        return (*_edits(case), *_wrong_reads(case), *_not_rescaled(case))
    return (
        *_edits(case),
        *_not_rescaled(case),
        *_other_scales(case),
        *_wrong_reads(case),
        *_other_masks(case),
        *_other_branches(case),
        *_other_sinks(case),
    )


def served_controls(case: Case, served: Served) -> Iterator[NegativeControl]:
    """Yield outputs over other keys of caches. In peaked cases those that differ by single keys are left out."""
    for i, paged in enumerate(served.caches):
        for name, change in cache_controls(case, paged).items():
            yield NegativeControl(f"{NAMES[i]}: {name}", _changing_cache(case, i, change))
    if len(served.caches) == 2:
        for name, change_both in PAIR_CONTROLS.items():
            if name != "keys of both counted once" or (served.twice and case.peak == 1):
                yield NegativeControl(name, _changing_caches(case, change_both))
    if served.empty_lse == math.inf:
        yield NegativeControl("lse: -inf where no key is seen", lambda _, outputs: outputs | {"lse": _flipped(outputs)})


def _flipped(outputs: Outputs) -> Array:
    lse = outputs["lse"]
    return np.where(np.isposinf(lse), -np.inf, lse)


def _changing_cache(
    case: Case, i: int, change: Callable[[CacheInputs], CacheInputs]
) -> Callable[[Inputs, Outputs], Outputs]:
    return lambda inputs, _: right(case, with_cache(inputs, i, change(inputs.caches[i])))


def _changing_caches(
    case: Case, change: Callable[[CacheInputs, CacheInputs], CacheInputs]
) -> Callable[[Inputs, Outputs], Outputs]:
    return lambda inputs, _: right(case, with_cache(inputs, 1, change(*inputs.caches)))


def with_cache(inputs: Inputs, i: int, cache: CacheInputs) -> Inputs:
    """Return the inputs with another cache `i`."""
    return replace(inputs, caches=tuple(cache if j == i else each for j, each in enumerate(inputs.caches)))


def _edits(case: Case) -> Iterator[NegativeControl]:
    for tensor in case.tensors:
        edits = EDITS | (EDITS_OF_ROWS if tensor in ("O", "U") else EDITS_OF_STATISTICS)
        for name, edit in edits.items():
            yield NegativeControl(f"{tensor}: {name}", _editing(tensor, edit))


def _editing(tensor: str, edit: Edit) -> Callable[[Inputs, Outputs], Outputs]:
    return lambda _, outputs: outputs | {tensor: edit(outputs[tensor].copy())}


def _not_rescaled(case: Case) -> Iterator[NegativeControl]:
    """Yield the outputs of a kernel that updates the maximum from KV tile to KV tile, but does not rescale U."""
    if case.peak > 1 or case.trend == "growing":
        yield NegativeControl("not rescaled where a maximum moves", lambda inputs, _: _without_rescale(case, inputs))


def _without_rescale(case: Case, inputs: Inputs) -> Outputs:
    parts = partials(case, inputs)
    u, m = torch.zeros_like(parts[0].u), torch.full_like(parts[0].m, -torch.inf)
    for part in _partials_of_tiles(case, inputs, parts):
        m = torch.maximum(m, part.m)
        u += part.u * weights(part.m, m)[..., None]
    wrong = replace(joined(parts), u=u)
    out = merge([wrong], case.sink)
    return stored(outputs_of(case, kernel.Attention(o=out.o, u=wrong.u, lse=out.lse, m=wrong.m)))


def _partials_of_tiles(case: Case, inputs: Inputs, parts: list[Partial]) -> Iterator[Partial]:
    """Yield the partials of each KV tile of the window, then those of other branches; or of each tile of caches."""
    block_n = case.kv_tile
    if case.served is not None:
        for i, cache in enumerate(inputs.caches):
            tile = torch.arange(cache.indices.shape[2]) // block_n
            for number in range(int(tile.max()) + 1):
                lists = cache.indices.where(tile == number, -1), cache.counts
                yield partials(case, with_cache(inputs, i, cache.with_lists(*lists)))[i]
        return
    tile = torch.arange(case.keys) // block_n
    for i in range(-(-case.keys // block_n)):
        yield partials(case, inputs, case.visible & (tile == i))[0]
    yield from parts[1:]


def _other_scales(case: Case) -> Iterator[NegativeControl]:
    if case.scale is not None:
        yield NegativeControl("the default scale", lambda inputs, _: right(replace(case, scale=None), inputs))


def _wrong_reads(case: Case) -> Iterator[NegativeControl]:
    """Yield the outputs of a kernel that reads wrong keys."""
    tile = case.kv_tile
    if case.lens is None and not case.causal and case.peak == 1:
        yield NegativeControl("a key past the end attended", lambda inputs, _: _with_zero_key(case, inputs))
    if case.keys > tile:
        yield _reading(case, "the first KV tile read for every tile", torch.arange(case.keys) % tile)
    if case.batch > 1:
        yield NegativeControl(
            "the first sequence's keys read for every one", lambda inputs, _: _with_first_keys(case, inputs)
        )


def _reading(case: Case, name: str, keys: torch.Tensor) -> NegativeControl:
    def make(inputs: Inputs, _: Outputs) -> Outputs:
        v = None if inputs.v is None else inputs.v[:, keys]
        return right(case, replace(inputs, k=inputs.k[:, keys], v=v))

    return NegativeControl(name, make)


def _with_zero_key(case: Case, inputs: Inputs) -> Outputs:
    """Return the output with one more key of zeros, as TMA fills in past the end of a tensor."""
    k, v = (None if x is None else torch.nn.functional.pad(x, (0, 0, 0, 1)) for x in (inputs.k, inputs.v))
    assert k is not None
    return right(case, replace(inputs, k=k, v=v), torch.nn.functional.pad(case.visible, (0, 1), value=True))


def _with_first_keys(case: Case, inputs: Inputs) -> Outputs:
    k, v = (None if x is None else x[:1].expand_as(x) for x in (inputs.k, inputs.v))
    assert k is not None
    return right(case, replace(inputs, k=k, v=v))


def _other_masks(case: Case) -> Iterator[NegativeControl]:
    """Yield outputs of softmax over other keys than the visible ones."""
    last = (case.keys - 1) // case.kv_tile * case.kv_tile
    yield _masking(case, "the last 16 visible keys dropped", lambda seen: _without_last(seen, SUB_TILE))
    yield _masking(case, "the last visible key dropped", lambda seen: _without_last(seen, 1))
    if last:
        yield _masking(case, "the last KV tile dropped", lambda seen: seen & (torch.arange(seen.shape[2]) < last))
    if case.lens is not None or case.causal:
        yield _masking(case, "one masked key attended", _with_one_more)
        yield _masking(case, "no mask", torch.ones_like)
    if case.causal:
        yield _masking(case, "one future key attended", lambda seen: seen | _shifted(seen, 1))
        yield _masking(case, "aligned to the first key", lambda seen: _aligned_to_first(case, seen))
    if case.window is not None:
        yield _masking(case, "one key before the window attended", lambda seen: seen | _shifted(seen, -1))


def _other_branches(case: Case) -> Iterator[NegativeControl]:
    """Yield outputs without compressed keys, or with other compressed keys."""
    if case.compressed is None:
        return
    yield NegativeControl("no compressed keys", lambda inputs, _: right(case, replace(inputs, compressed=None)))
    yield _masking(case, "no window", torch.zeros_like)
    if case.compressed.topk is None:
        name, compressed = "an incomplete block attended", case.compressed
        yield NegativeControl(name, lambda inputs, _: _with_parts_of_blocks(case, compressed, inputs))
        return
    last, past = case.blocks - 1, "an index past the last key read as that key"
    yield _changing_topk(case, "one index past the top-k length used", lambda topk, lens: (topk, lens + 1))
    yield _changing_topk(case, "the last top-k index dropped", lambda topk, lens: (topk, (lens - 1).clamp(min=0)))
    yield _changing_topk(case, past, lambda topk, lens: (topk.clamp(max=last), lens))
    yield _changing_topk(case, "-1 read as key 0", lambda topk, lens: (topk.clamp(min=0), lens))
    yield _changing_topk(case, "a repeated index counted once", lambda topk, lens: (_without_repeats(topk), lens))


def _with_parts_of_blocks(case: Case, compressed: Compressed, inputs: Inputs) -> Outputs:
    """Return the output for sequences that are one token less than a block longer."""
    past = tuple(tokens + compressed.ratio - 1 for tokens in compressed.past)
    longer = replace(case, compressed=replace(compressed, past=past))
    assert inputs.compressed is not None
    keys = torch.nn.functional.pad(inputs.compressed, (0, 0, 0, longer.blocks - case.blocks))
    return right(longer, replace(inputs, compressed=keys))


def _changing_topk(case: Case, name: str, change: ChangeTopk) -> NegativeControl:
    def make(inputs: Inputs, _: Outputs) -> Outputs:
        assert inputs.topk_indices is not None and inputs.topk_lens is not None
        indices, lens = change(inputs.topk_indices, inputs.topk_lens)
        return right(case, replace(inputs, topk_indices=indices, topk_lens=lens))

    return NegativeControl(name, make)


def _without_repeats(topk: torch.Tensor) -> torch.Tensor:
    """Replace every index that occurs earlier in its row by -1."""
    again = (topk[..., None] == topk[..., None, :]).tril(-1).any(-1)
    return torch.where(again, -1, topk)


def _other_sinks(case: Case) -> Iterator[NegativeControl]:
    """Yield outputs with sinks in other units or of other heads, and lse with the sink."""
    if case.sinks is None or (case.served is not None and case.peak > 1):
        return
    scaled = tuple(sink * (case.scale or case.head_dim**-0.5) for sink in case.sinks)
    base_2 = tuple(sink / math.log(2) for sink in case.sinks)
    rotated = (*case.sinks[1:], case.sinks[0])
    changes = {"scaled by scale": scaled, "in base 2": base_2, "of the next head": rotated, "left out": None}
    for name, sinks in changes.items():
        yield _sinking(replace(case, sinks=sinks), name)
    if all(abs(sink) < NEAR for sink in case.sinks):
        yield _sinking(replace(case, sinks=tuple(sink + math.log(1.01) for sink in case.sinks)), "1% too heavy")
    yield NegativeControl("lse: with the sink", lambda _, outputs: outputs | {"lse": _with_sink(case, outputs["lse"])})


def _sinking(other: Case, name: str) -> NegativeControl:
    return NegativeControl(f"sink {name}", lambda inputs, _: right(other, inputs))


def _with_sink(case: Case, lse: Array) -> Array:
    assert case.sink is not None
    with_sink: Array = np.logaddexp(lse, np.tile(case.sink.double().numpy(), len(lse) // case.heads))
    return with_sink


def _masking(case: Case, name: str, change: ChangeMask) -> NegativeControl:
    return NegativeControl(name, lambda inputs, _: right(case, inputs, change(case.visible)))


def _without_last(seen: torch.Tensor, keys: int) -> torch.Tensor:
    """Hide the last visible `keys` of every token."""
    after = seen.flip(2).cumsum(2).flip(2)
    return seen & (after > keys)


def _with_one_more(seen: torch.Tensor) -> torch.Tensor:
    """Show one more key to the last token that has a masked key next to a visible one."""
    beside = (_shifted(seen, 1) | _shifted(seen, -1)) & ~seen
    more = seen.clone()
    if beside.any():
        more[tuple(beside.nonzero()[-1])] = True
    return more


def _shifted(seen: torch.Tensor, by: int) -> torch.Tensor:
    if seen.shape[2] == 0:
        return seen
    return torch.nn.functional.pad(seen, (by, -by))


def _aligned_to_first(case: Case, seen: torch.Tensor) -> torch.Tensor:
    """Return the causal mask with token t at key t, instead of aligned to the end of the sequence."""
    tokens = torch.full((case.batch,), case.tokens)
    return causal_mask(case.tokens, case.keys, tokens, case.window)


def _rounded(array: Array, dtype: torch.dtype) -> Array:
    return torch.from_numpy(array).to(dtype).double().numpy()


def _zero_row(x: Array) -> Array:
    x[2] = 0
    return x


def _swap_rows(x: Array) -> Array:
    x[[0, 1]] = x[[1, 0]]
    return x


def _swap_sub_tiles(x: Array) -> Array:
    rows, first, second = slice(SUB_TILE_ROWS), slice(SUB_TILE), slice(SUB_TILE, 2 * SUB_TILE)
    x[rows, first], x[rows, second] = x[rows, second].copy(), x[rows, first].copy()
    return x


def _lose_element(x: Array) -> Array:
    x.flat[-1] = np.nan
    return x


def _lose_row(x: Array) -> Array:
    x[0] = np.nan
    return x


def _negate_row(x: Array) -> Array:
    x[1] = -x[1]
    return x


EDITS: dict[str, Edit] = {
    "scaled by 2": lambda x: x * 2,
    "scaled by 1.01": lambda x: x * 1.01,
    "one row zeroed": _zero_row,
    "two rows swapped": _swap_rows,
    "one element unwritten": _lose_element,
    "one row NaN": _lose_row,
}
EDITS_OF_ROWS: dict[str, Edit] = {
    "scaled by 0.999": lambda x: x * 0.999,
    "a 128x16 sub-tile swapped": _swap_sub_tiles,
    "one row negated": _negate_row,
}
EDITS_OF_STATISTICS: dict[str, Edit] = {"in base 2": lambda x: x / np.log(2)}
