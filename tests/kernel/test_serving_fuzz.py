"""flash_mla's and FlashInfer's calls with any values on the device: nothing is read outside the caches.

The emulator reports a read outside a tensor. Results are those of the indices, pages and lengths that name keys.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import emulator
from flash_mla import flash_mla_with_kvcache, get_mla_metadata
from kernel.reference import selection
from kernel.serving.flashinfer import WINDOW, trtllm_batch_decode_sparse_mla_dsv4
from stages.cache_layouts import V4
from tests.tiers import shortened

INT32 = st.one_of(
    st.sampled_from([-(2**31), -1, 0, 2**30, 2**31 - 1]), st.integers(-2, 40), st.integers(-(2**31), 2**31 - 1)
)
HEADS = 8
SCALE = 0.1
EXAMPLES = pytest.mark.parametrize("examples", shortened(1, [3, 15, 60], in_ci=2))


def run(examples: int, check: Callable[[st.DataObject], None]) -> None:
    """Run a check of so many examples, which are the same in every run."""
    options = settings(
        max_examples=examples, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
    )
    options(given(st.data())(check))()


def drawn(data: st.DataObject, *shape: int) -> torch.Tensor:
    """Draw a tensor of any int32."""
    count = math.prod(shape)
    return torch.tensor(data.draw(st.lists(INT32, min_size=count, max_size=count)), dtype=torch.int32).view(shape)


def keys(count: int, seed: int) -> torch.Tensor:
    return torch.randn(count, 512, generator=torch.Generator().manual_seed(seed)) / 4


def queries(*shape: int) -> torch.Tensor:
    return (torch.randn(*shape, 512, generator=torch.Generator().manual_seed(1)) * 2).bfloat16()


def counting(indices: torch.Tensor, lens: torch.Tensor, keys: int, first: int = 0) -> torch.Tensor:
    """Return indices of which `lens` count and that name a key, from `first` on; -1 for others."""
    counts = (torch.arange(indices.shape[-1]) < lens[..., None]) & (indices >= 0) & (indices < keys)
    return torch.where(counts, indices + first, -1)


def equal(found: torch.Tensor, q: torch.Tensor, kv: torch.Tensor, indices: torch.Tensor) -> None:
    """Compare an output with the reference over flat keys."""
    want = selection(q, kv.expand(len(q), -1, -1), topk_indices=indices, scale=SCALE)
    torch.testing.assert_close(found.double(), want.o, atol=2e-3, rtol=2e-2)


@EXAMPLES
def test_any_indices_and_lengths_of_packed_caches(examples: int) -> None:
    """Keys before the first page and behind the last do not exist, so that the emulator would report a read of them."""
    caches, kv = [], []
    for count, size in ((18, 6), (8, 2)):
        rows, meant = V4().encode(keys(count, size), torch.Generator().manual_seed(1))
        packed = V4().pages(rows, torch.ones(count, dtype=torch.bool), size, 0, math.nan)
        caches.append(packed.contiguous() if size % 2 else packed.clone())
        kv.append(meant)

    def check(data: st.DataObject) -> None:
        indices, extra = drawn(data, 2, 2, 7), drawn(data, 2, 2, 5)
        lens, extra_lens = drawn(data, 2), drawn(data, 2, 2)
        with emulator.emulate():
            out, _ = flash_mla_with_kvcache(
                (q := queries(2, 2, HEADS)),
                caches[0],
                None,
                None,
                512,
                get_mla_metadata()[0],
                softmax_scale=SCALE,
                indices=indices,
                topk_length=lens,
                extra_k_cache=caches[1],
                extra_indices_in_kvcache=extra,
                extra_topk_length=extra_lens,
            )
        both = torch.cat([counting(indices, lens[:, None], 18), counting(extra, extra_lens, 8, 18)], 2)
        equal(out, q, torch.cat(kv)[None], both)

    run(examples, check)


@EXAMPLES
def test_any_block_table_and_lengths(examples: int) -> None:
    run(examples, lambda data: check_table(drawn(data, 2, 5), drawn(data, 2)))


@pytest.mark.parametrize("lens", [[2**31 - 1, 2**30 + 20], [-(2**31), -(2**31) + 1]])
def test_lengths_at_the_ends_of_int32(lens: list[int]) -> None:
    """A sequence longer than its table has the keys in it, and one of a negative length has none."""
    check_table(torch.tensor([[0, 2, 1, 1, 0], [1, 0, 2, 9, 1]], dtype=torch.int32), torch.tensor(lens).int())


def check_table(table: torch.Tensor, lens: torch.Tensor) -> None:
    """Check decode of 2 causal tokens over 3 pages of 4 keys. A page that does not exist is empty."""
    kv, pages, size = keys(12, 3).bfloat16(), 3, 4
    with emulator.emulate():
        out, _ = flash_mla_with_kvcache(
            (q := queries(2, 2, HEADS)),
            kv.view(pages, size, 1, 512),
            table,
            lens,
            512,
            get_mla_metadata()[0],
            softmax_scale=SCALE,
            causal=True,
        )
    exists = (table >= 0) & (table < pages)
    held = torch.where(exists[..., None], table[..., None] * size + torch.arange(size).int(), -1).flatten(1)
    ends = lens[:, None].long() - 2 + torch.arange(2) + 1
    equal(out, q, kv[None], counting(held[:, None].expand(2, 2, -1), ends, 12))


@pytest.mark.parametrize("examples", shortened(0, [15, 60], in_ci=1))
def test_any_lengths_and_indices_of_flashinfer(examples: int) -> None:
    """Rows behind the last sequence, as those that pad a captured batch, see no key of the window."""
    window, others, tokens = keys(12, 4).bfloat16(), keys(6, 5).bfloat16(), 4

    def check(data: st.DataObject) -> None:
        listed = torch.full((tokens, WINDOW + 6), -1, dtype=torch.int32)
        listed[:, :5], listed[:, WINDOW:] = drawn(data, tokens, 5), drawn(data, tokens, 6)
        lens, seq_lens, begins = drawn(data, tokens), drawn(data, 2), drawn(data, 3)
        in_order = data.draw(st.booleans())
        if in_order:
            ends = sorted(data.draw(st.lists(st.integers(0, tokens), min_size=2, max_size=2)))
            begins = torch.tensor([0, *ends], dtype=torch.int32)
        with emulator.emulate():
            out = trtllm_batch_decode_sparse_mla_dsv4(
                (q := queries(tokens, HEADS)),
                window.view(3, 1, 4, 512),
                None,
                listed,
                others.view(3, 1, 2, 512),
                lens,
                seq_lens,
                bmm1_scale=SCALE,
                cum_seq_lens_q=begins,
                max_q_len=tokens,
            )
        assert out.isfinite().all()
        if in_order:
            seen = seen_by(begins.tolist(), seq_lens.tolist(), tokens)
            parts = counting(listed[:, :WINDOW], seen, 12), counting(listed[:, WINDOW:], lens.long() - WINDOW, 6, 12)
            equal(out[None], q[None], torch.cat([window, others])[None], torch.cat(parts, 1)[None])

    run(examples, check)


def seen_by(begins: list[int], seq_lens: list[int], tokens: int) -> torch.Tensor:
    """Return how many tokens of its sequence each token sees, [tokens]."""
    seen = torch.zeros(tokens, dtype=torch.long)
    for length, begin, end in zip(seq_lens, begins[:-1], begins[1:], strict=True):
        seen[begin:end] = length - end + torch.arange(begin, end) + 1
    return seen
