"""Strides of every tensor of every call: a call computes what it computes for copies, or names the tensor it rejects.

Strides are drawn: 0, smaller than what lies inside, odd, with gaps. torch has no negative ones.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
import torch

import emulator
import kernel
from flash_mla import flash_mla_sparse_fwd, flash_mla_with_kvcache, get_mla_metadata
from kernel import serving
from tests.tiers import shortened

Form = tuple[tuple[int, ...], torch.dtype, int]
"""Shape, dtype, and for int32 the number that no element reaches."""
Arguments = dict[str, Any]
BF16, INT, FLOAT, BYTE = torch.bfloat16, torch.int32, torch.float32, torch.uint8
ROWS = (2, 3, 4)  # sequences, tokens, heads


def dense(q: Any, k: Any, v: Any, swa_lens: Any, sink: Any, **out: Any) -> object:
    return kernel.fmha(q, k, v, swa_lens=swa_lens, causal=True, sink=sink, splits=1, out=results(out))


def blocks(q: Any, swa_kv: Any, cmp_kv: Any, seq_lens: Any, attn_sink: Any, **out: Any) -> object:
    options: dict[str, Any] = {"cmp_kv": cmp_kv, "seq_lens": seq_lens, "compress_ratio": 4, "attn_sink": attn_sink}
    return kernel.dsv4.attention(q, swa_kv, splits=1, out=results(out), **options)


def topk(q: Any, swa_kv: Any, cmp_kv: Any, topk_indices: Any, topk_lens: Any, **out: Any) -> object:
    options: dict[str, Any] = {"cmp_kv": cmp_kv, "topk_indices": topk_indices, "topk_lens": topk_lens}
    return kernel.dsv4.attention(q, swa_kv, splits=1, out=results(out), **options)


def listed(given: Arguments) -> object:
    main = serving.IndexedCache(given["main.pages"], given["main.indices"], given["main.lens"])
    extra = serving.IndexedCache(given["extra.pages"], given["extra.indices"], given["extra.lens"])
    return serving.attention(given["q"], main, extra, sink=given["sink"], splits=1, out=results(given))


def tables(given: Arguments) -> object:
    main = serving.TableCache(given["main.pages"], given["main.table"], given["main.seq_lens"])
    return serving.attention(given["q"], main, splits=1, out=results(given))


def sparse(given: Arguments) -> object:
    tensors = [given[name] for name in ("q", "kv", "indices", "lens")]
    return serving.sparse_attention(*tensors, splits=1, out=results(given))


def by_table(given: Arguments) -> object:
    options: dict[str, Any] = {"head_dim_v": 512, "causal": True}
    return flash_mla_with_kvcache(tile_scheduler_metadata=get_mla_metadata()[0], **options, **given)


def decode(given: Arguments) -> object:
    options: dict[str, Any] = {"block_table": None, "cache_seqlens": None, "head_dim_v": 512}
    return flash_mla_with_kvcache(tile_scheduler_metadata=get_mla_metadata()[0], **options, **given)


def results(given: Arguments) -> kernel.Attention | None:
    found = {name.removeprefix("out."): each for name, each in given.items() if name.startswith("out.")}
    return kernel.Attention(**found) if found else None


OUT: dict[str, Form] = {"out.o": ((*ROWS, 64), BF16, 0), "out.lse": (ROWS, FLOAT, 0)}
PARTIALS: dict[str, Form] = {"out.u": ((*ROWS, 64), FLOAT, 0), "out.m": (ROWS, FLOAT, 0)}
WIDE: dict[str, Form] = {"out.o": ((*ROWS, 512), BF16, 0), "out.lse": (ROWS, FLOAT, 0)}
PAGES: dict[str, Form] = {"q": ((*ROWS, 512), BF16, 0), "main.pages": ((5, 6, 1, 512), BF16, 0)}
SEEDS = 12
SINK: Form = ((4,), FLOAT, 0)
CALLS: dict[str, tuple[Callable[[Arguments], object], dict[str, Form]]] = {
    "dense": (
        lambda given: dense(**given),
        {"q": ((*ROWS, 64), BF16, 0), "k": ((2, 70, 64), BF16, 0), "v": ((2, 70, 64), BF16, 0)}
        | {"swa_lens": ((2,), INT, 71), "sink": SINK, **OUT, **PARTIALS},
    ),
    "blocks": (
        lambda given: blocks(**given),
        {"q": ((*ROWS, 64), BF16, 0), "swa_kv": ((2, 30, 64), BF16, 0), "cmp_kv": ((2, 9, 64), BF16, 0)}
        | {"seq_lens": ((2,), INT, 36), "attn_sink": SINK, **OUT},
    ),
    "topk": (
        lambda given: topk(**given),
        {"q": ((*ROWS, 64), BF16, 0), "swa_kv": ((2, 30, 64), BF16, 0), "cmp_kv": ((2, 9, 64), BF16, 0)}
        | {"topk_indices": ((2, 3, 7), INT, 9), "topk_lens": ((2, 3), INT, 8), **OUT},
    ),
    "listed": (
        listed,
        {**PAGES, "main.indices": ((2, 3, 7), INT, 30), "main.lens": ((2, 3), INT, 8)}
        | {
            "extra.pages": ((3, 2, 512), BF16, 0),
            "extra.indices": ((2, 3, 5), INT, 6),
            "extra.lens": ((2,), INT, 6),
            "sink": SINK,
            **WIDE,
        },
    ),
    "tables": (tables, {**PAGES, "main.table": ((2, 3), INT, 5), "main.seq_lens": ((2,), INT, 19), **WIDE}),
    "sparse": (
        sparse,
        {"q": ((6, 4, 512), BF16, 0), "kv": ((30, 512), BF16, 0), "indices": ((6, 7), INT, 30), "lens": ((6,), INT, 8)}
        | {"out.o": ((6, 4, 512), BF16, 0), "out.lse": ((6, 4), FLOAT, 0)},
    ),
    "decode": (
        decode,
        {"q": ((*ROWS, 512), BF16, 0), "k_cache": ((5, 6, 1, 584), BYTE, 0), "indices": ((2, 3, 7), INT, 30)}
        | {"topk_length": ((2, 3), INT, 8), "attn_sink": SINK, "out": ((*ROWS, 512), BF16, 0)},
    ),
    "by table": (
        by_table,
        {"q": ((*ROWS, 512), BF16, 0), "k_cache": ((5, 6, 1, 512), BF16, 0), "block_table": ((2, 3), INT, 5)}
        | {"cache_seqlens": ((2,), INT, 19), "attn_sink": SINK, "out": ((*ROWS, 512), BF16, 0)},
    ),
    "prefill": (
        lambda given: flash_mla_sparse_fwd(sm_scale=0.1, **given),
        {"q": ((6, 4, 512), BF16, 0), "kv": ((30, 1, 512), BF16, 0), "indices": ((6, 1, 7), INT, 30)}
        | {"topk_length": ((6,), INT, 8), "attn_sink": SINK, "out": ((6, 4, 512), BF16, 0)},
    ),
}


def drawn(form: Form, random: Random) -> torch.Tensor:
    """Return a tensor with drawn strides over random elements."""
    shape, dtype, below = form
    unit, step, stride = 16 // dtype.itemsize, 1, [0] * len(shape)
    for dim in reversed(range(len(shape))):
        stride[dim] = step
        step = step * shape[dim] + unit * random.choice((0, 0, 0, 1, 2))
    for dim in range(len(shape)):
        if random.random() < 0.1:
            stride[dim] = random.choice((0, 1, unit, stride[dim] + 1, 2 * stride[dim], stride[dim] + unit))
    count = 1 + sum((size - 1) * each for size, each in zip(shape, stride, strict=True))
    generator = torch.Generator().manual_seed(random.randrange(2**31))
    if dtype is INT:
        elements = torch.randint(0, below, (count,), generator=generator, dtype=INT)
    elif dtype is BYTE:
        elements = torch.randint(56, 64, (count,), generator=generator, dtype=BYTE)
    else:
        elements = torch.randn(count, generator=generator).to(dtype)
    return elements.as_strided(shape, stride)


def launched(call: Callable[[Arguments], object], given: Arguments) -> tuple[str, list[torch.Tensor]]:
    """Return the error of a call, and its results."""
    try:
        found: Any = call(given)
    except (ValueError, RuntimeError) as error:
        return str(error), []
    tensors = found if isinstance(found, tuple) else vars(found).values()
    return "", [each.clone() for each in tensors if each is not None]


def broadcast(form: Form, dim: int, seed: str) -> torch.Tensor:
    """Return random elements with a stride of 0 in one dimension, if there is one."""
    whole = drawn(form, Random(seed)).contiguous()
    return whole.narrow(dim, 0, 1).expand(whole.shape) if dim < whole.dim() else whole


def compared(call: Callable[[Arguments], object], given: Arguments) -> tuple[list[str], list[str]]:
    """Make a call, with copies of the tensors that it rejects, and compare it with a call with copies of all.

    Return the names of the rejected ones, and of the others that are not contiguous.
    """
    rejected: list[str] = []
    for _ in itertools.count():
        error, found = launched(call, given)
        if not error:
            break
        named = [each for each in given if error.startswith(f"{each}.stride(")]
        assert named and not given[named[0]].is_contiguous(), error
        rejected.append(named[0])
        given[named[0]] = given[named[0]].contiguous().clone()
    copies = {each: held.clone(memory_format=torch.contiguous_format) for each, held in given.items()}
    error, want = launched(call, copies)
    strides = {each: tensor.stride() for each, tensor in given.items()}
    assert not error and all(map(torch.equal, found, want)), strides
    return rejected, [each for each, tensor in given.items() if not tensor.is_contiguous()]


@pytest.mark.parametrize("name", shortened(1, CALLS, in_ci=4))
def test_strides(name: str) -> None:
    call, forms = CALLS[name]
    rejected = accepted = 0
    with emulator.emulate():
        for random in map(Random, range(SEEDS)):
            copied, used = compared(call, {each: drawn(form, random) for each, form in forms.items()})
            rejected, accepted = rejected + len(copied), accepted + len(used)
    assert rejected and accepted


@pytest.mark.parametrize("name", shortened(1, sorted(CALLS, key="tables".__ne__)))
def test_strides_of_0(name: str) -> None:
    """Every tensor is broadcast along each of its dimensions: an integer tensor is read there, a result is rejected."""
    call, forms = CALLS[name]
    with emulator.emulate():
        for dim in range(2):
            copied, used = compared(call, {each: broadcast(form, dim, each) for each, form in forms.items()})
            read = {each for each, (shape, dtype, _) in forms.items() if dtype is INT and dim < len(shape) - 1}
            read = {each for each in read if forms[each][0][dim] > 1}  # else it is contiguous
            assert read <= {*used, *copied} and not any(each.startswith("out") for each in used), (dim, copied, used)
        check_devices(name)  # the call has a plan now


def test_strides_of_single_tokens_and_heads_do_not_count() -> None:
    """The first two modes that the kernel merges then have size 1, and the stride of neither is one of rows."""
    elements, (k, v) = torch.randn(2 * 72).bfloat16(), (torch.randn(2, 70, 64).bfloat16() for _ in range(2))
    q = elements.as_strided((2, 1, 1, 64), (72, 5, 3, 1))
    with emulator.emulate():
        found, want = (kernel.fmha(each, k, v, splits=1) for each in (q, q.contiguous().clone()))
    assert torch.equal(found.o, want.o) and torch.equal(found.lse, want.lse) and want.o.abs().sum() > 0


@pytest.mark.parametrize("name", CALLS)
def test_a_tensor_on_another_device_is_named(name: str) -> None:
    error, _ = launched(CALLS[name][0], drawn_plainly(name))
    assert error.startswith("q.device is cpu; allowed: a CUDA device")
    check_devices(name)


def check_devices(name: str) -> None:
    """Make a call with each tensor on another device. With q there, any that is not may be named."""
    given = drawn_plainly(name)
    for each in given:
        error, _ = launched(CALLS[name][0], given | {each: given[each].to("meta")})
        named = [one for one in given if error.startswith(f"{one}.device is ") and "q's device" in error]
        assert named and (each == "q" or named == [each]), f"{each}: {error}"


def drawn_plainly(name: str) -> Arguments:
    """Return contiguous arguments of a call."""
    return {each: drawn(form, Random(each)).contiguous() for each, form in CALLS[name][1].items()}
