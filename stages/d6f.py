"""D6f: decode over FP8 caches: split keys, one to eight tokens, padding, and bits that do not depend on the batch."""

import math
from dataclasses import replace

import pytest

import kernel
from stages.caches import Paged, Served
from stages.case import Case
from stages.device import Device
from stages.inputs import Inputs, draw
from stages.verify import launched, same_bits

SINKS = (0.0, 4.0, -math.inf, -4.0, math.inf, -80.0)


def decode(
    heads: int, tokens: int, lens: tuple[int, ...], extra: tuple[int, ...] | None, topk: int, **more: object
) -> Case:
    """Return a case with a window cache, of `lens` keys a sequence, and compressed keys, of `extra`.

    The last sequence is the padding of a captured batch if its lengths are 0.
    """
    served = Served(
        (
            Paged(4, 64, 128, layout="v4", lens=lens),
            Paged(150, 2, topk, layout="v4", gap=48, lens=extra),
        ),
        empty_lse=math.inf,
        invariant=bool(more.pop("invariant", False)),
    )
    return Case("D6f", 512, 0, heads, tokens, len(lens), None, True, False, served=served, **more)  # type: ignore[arg-type]


CASES = (
    decode(64, 1, (128, 60), (200, 0), 200, splits="auto", sinks=SINKS),
    # Splits without a KV tile, and lengths of 0.
    decode(8, 1, (128, 3, 0), (0, 5, 0), 200, splits=8, sinks=SINKS),
    decode(128, 2, (128, 0), (290, 0), 290, splits=8),  # on an H200 partial results overwrite keys of a CTA pair
    decode(16, 2, (128, 70), None, 133, splits=2, peak=32),
    decode(32, 8, (128,), (133,), 133, splits="auto", peak=128),
    # Bits that do not depend on the batch; more tokens than CTAs.
    decode(16, 1, (128, 9, 0, 64, 65, 100), (133, 0, 0, 20, 64, 3), 133, sms=2, sinks=SINKS, invariant=True),
    decode(128, 3, (128, 5), (70, 133), 133, sms=2, invariant=True),
)
SEEDS = (1,)
INVARIANT = tuple(case for case in CASES if case.served is not None and case.served.invariant)


def alone(case: Case) -> Case:
    """Return the case with a single sequence, its first. The lengths of another one are values of the same call."""
    return of_lengths(replace(case, batch=1), [0])


def of_lengths(case: Case, order: list[int]) -> Case:
    """Return the case with the lengths of the sequences in `order`."""
    assert case.served is not None
    caches = tuple(
        replace(each, lens=None if each.lens is None else tuple(each.lens[i] for i in order))
        for each in case.served.caches
    )
    return replace(case, served=replace(case.served, caches=caches))


TWINS = tuple(alone(case) for case in INVARIANT)


def of_sequences(case: Case, inputs: Inputs, order: list[int]) -> Inputs:
    """Return the inputs of the sequences in `order`."""
    served = of_lengths(case, order).served
    assert served is not None
    caches = tuple(
        replace(cache, paged=paged, indices=cache.indices[order], counts=cache.counts[order])
        for cache, paged in zip(inputs.caches, served.caches, strict=True)
    )
    return replace(inputs, q=inputs.q[order], caches=caches)


@pytest.mark.parametrize("case", INVARIANT, ids=str)
def test_the_bits_of_a_request_do_not_depend_on_the_batch(case: Case, seed: int, device: Device) -> None:
    """With batch_invariant, a sequence has the same bits in a batch, in the batch in another order, and alone."""
    inputs, backwards = draw(case, seed), list(reversed(range(case.batch)))
    together = launched(case, seed, device, inputs)
    reordered = launched(case, seed, device, of_sequences(case, inputs, backwards))
    same_bits(reordered, part_of(together, backwards), f"{case} seed={seed}", "two orders of the batch")
    for sequence in range(case.batch):
        found = launched(alone(case), seed, device, of_sequences(case, inputs, [sequence]))
        between = f"sequence {sequence} alone and in the batch"
        same_bits(found, part_of(together, [sequence]), f"{case} seed={seed}", between)


def part_of(attention: kernel.Attention, order: list[int]) -> kernel.Attention:
    """Return the results of the sequences in `order`."""
    return kernel.Attention(attention.o[order], attention.lse[order])
