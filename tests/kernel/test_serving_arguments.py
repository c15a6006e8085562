"""Wrong arguments of flash_mla's and FlashInfer's calls: each is named before anything is launched."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch

from flash_mla import flash_mla_sparse_fwd, flash_mla_with_kvcache, get_mla_metadata
from kernel.serving.flashinfer import WINDOW, trtllm_batch_decode_sparse_mla_dsv4

Arguments = dict[str, Any]
DTYPES = (
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.float8_e5m2,
    torch.float8_e4m3fn,
)
CODES = (torch.uint8, torch.int8, torch.float8_e4m3fn)
NO_TENSOR = (7, "x", [1.0], (), 1.5)
SCALES = (0.0, -1.0, math.nan, math.inf, "1", [1.0], 1j)
FLAGS = (None, 2, "x", [1])


@dataclass(frozen=True)
class Argument:
    """Wrong values of an argument.

    values: that are wrong whatever the other arguments are. dtypes: that a tensor may have. ranks: that it may have.
    sizes: dimensions whose size is that of another tensor, or fixed. needed: None is wrong. strides: keys and results,
    whose rows begin at multiples of 16 bytes and share no memory. relates: other arguments that an error may name,
    because the value goes with theirs.
    """

    values: tuple[object, ...] = ()
    dtypes: tuple[torch.dtype, ...] = ()
    ranks: tuple[int, ...] = ()
    sizes: tuple[int, ...] = ()
    needed: bool = True
    strides: bool = False
    relates: tuple[str, ...] = ()


@dataclass(frozen=True)
class Call:
    """A call: the function, valid arguments, what is wrong for each, and the errors that it raises."""

    name: str
    function: Callable[..., object]
    right: Callable[[], Arguments]
    arguments: dict[str, Argument]
    errors: tuple[type[Exception], ...] = field(default=(RuntimeError, AssertionError))

    def __str__(self) -> str:
        return self.name

    def raised(self, arguments: Arguments) -> str:
        """Make the call outside the emulator, which rejects the device of q last. Return the message of the error."""
        try:
            self.function(**arguments)
        except self.errors as error:
            return str(error)
        return "nothing"


def tensor(dtype: torch.dtype, *ranks: int, sizes: tuple[int, ...] = (), **more: Any) -> Argument:
    return Argument(NO_TENSOR, (dtype,), ranks, sizes, **more)


def bf16(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.bfloat16)


def int32(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.int32)


def decode(columns: int, pages: torch.Tensor) -> Arguments:
    """Return arguments of flash_mla's decode with all tensors: 3 requests, 2 tokens, 4 heads."""
    return {
        "q": bf16(3, 2, 4, columns),
        "k_cache": pages,
        "block_table": None,
        "cache_seqlens": None,
        "head_dim_v": 512,
        "tile_scheduler_metadata": get_mla_metadata()[0],
        "num_splits": None,
        "softmax_scale": 0.1,
        "causal": False,
        "is_fp8_kvcache": pages.dtype != torch.bfloat16,
        "indices": int32(3, 2, 7),
        "attn_sink": torch.zeros(4),
        "extra_k_cache": pages.clone(),
        "extra_indices_in_kvcache": int32(3, 2, 5),
        "topk_length": int32(3),
        "extra_topk_length": int32(3, 2),
        "enable_batch_invariant": False,
        "out": bf16(3, 2, 4, 512),
        "page_scales": False,
    }


def by_table() -> Arguments:
    """Return arguments of flash_mla's decode by a block table."""
    without = dict.fromkeys(
        ("indices", "extra_k_cache", "extra_indices_in_kvcache", "topk_length", "extra_topk_length")
    )
    own = {"block_table": int32(3, 4), "cache_seqlens": int32(3), "causal": True}
    return decode(512, bf16(6, 16, 1, 512)) | without | own


def prefill() -> Arguments:
    return {
        "q": bf16(3, 4, 512),
        "kv": bf16(20, 1, 512),
        "indices": int32(3, 1, 7),
        "sm_scale": 0.1,
        "d_v": 512,
        "attn_sink": torch.zeros(4),
        "topk_length": int32(3),
        "indexer_topk": 2,
        "out": bf16(3, 4, 512),
    }


def dsv4() -> Arguments:
    """Return arguments of FlashInfer's call over bf16 caches: 3 tokens of 2 sequences, 4 heads."""
    return {
        "query": bf16(3, 4, 512),
        "swa_kv_cache": bf16(6, 1, 16, 512),
        "workspace_buffer": None,
        "sparse_indices": int32(3, WINDOW + 8),
        "compressed_kv_cache": bf16(9, 1, 2, 512),
        "sparse_topk_lens": int32(3),
        "seq_lens": int32(2),
        "out": bf16(3, 4, 512),
        "bmm1_scale": 0.1,
        "bmm2_scale": 0.5,
        "sinks": torch.zeros(4),
        "kv_layout": "HND",
        "cum_seq_lens_q": torch.tensor([0, 1, 3], dtype=torch.int32),
        "max_q_len": 2,
        "backend": "auto",
        "sparse_topk_lens_offset": 0,
        "kv_cache_format": "fp8",
    }


def by_offsets() -> Arguments:
    return dsv4() | {"sparse_indices_are_storage_offsets": True}


def window_alone() -> Arguments:
    none = dict.fromkeys(("compressed_kv_cache", "extra_sparse_indices", "extra_sparse_topk_lens"))
    return packed() | none


def packed() -> Arguments:
    """Return arguments of FlashInfer's call over packed caches: 3 sequences, a token, 4 heads."""
    caches = {
        "swa_kv_cache": torch.zeros(6, 1, 16, 584).byte(),
        "compressed_kv_cache": torch.zeros(9, 1, 2, 584).byte(),
    }
    own = {"sparse_indices": int32(3, 9), "extra_sparse_indices": int32(3, 5), "query": bf16(3, 1, 4, 512)}
    lens = {"swa_topk_lens": int32(3), "extra_sparse_topk_lens": int32(3), "out": bf16(3, 1, 4, 512)}
    none = dict.fromkeys(("sparse_topk_lens", "seq_lens", "cum_seq_lens_q", "max_q_len"))
    return dsv4() | caches | own | lens | none


OPTIONS = {
    "head_dim_v": Argument((256, 0, None, "512")),
    "tile_scheduler_metadata": Argument((None, 3, int32(3, 8))),
    "num_splits": Argument((int32(4), 1)),
    "softmax_scale": Argument(SCALES),
    "causal": Argument((None, 2, "x")),
    "is_fp8_kvcache": Argument((2, "x")),
    "attn_sink": tensor(torch.float32, 1, sizes=(0,), needed=False),
    "enable_batch_invariant": Argument(FLAGS),
    "page_scales": Argument(FLAGS),
    "out": tensor(torch.bfloat16, 4, sizes=(0, 1, 2, 3), needed=False, strides=True),
}
QUERIES = tensor(torch.bfloat16, 4, sizes=(0, 1, 3))
CODED = Argument(NO_TENSOR, CODES, (3, 4), (2, 3), strides=True)
LISTED = {
    "indices": tensor(torch.int32, 3, sizes=(0, 1)),
    "extra_indices_in_kvcache": tensor(torch.int32, 3, sizes=(0, 1)),
    "topk_length": tensor(torch.int32, 1, 2, sizes=(0,), needed=False),
    "extra_topk_length": tensor(torch.int32, 1, 2, sizes=(0, 1), needed=False),
}
FLASH_MLA = OPTIONS | LISTED | {"q": QUERIES, "extra_k_cache": CODED}
FLASH_MLA["indices"] = replace(LISTED["indices"], relates=("topk_length",))
FLASH_MLA["k_cache"] = replace(CODED, relates=("is_fp8_kvcache",))
TABLE = OPTIONS | {
    "q": QUERIES,
    "page_scales": Argument((True, *FLAGS)),
    "k_cache": tensor(torch.bfloat16, 3, 4, sizes=(2, 3), strides=True, relates=("is_fp8_kvcache",)),
    "block_table": tensor(torch.int32, 2, sizes=(0,)),
    "cache_seqlens": tensor(torch.int32, 1, sizes=(0,)),
    "topk_length": Argument((int32(3),)),
    "extra_topk_length": Argument((int32(3),)),
    "extra_k_cache": Argument((bf16(6, 16, 1, 512),)),
    "extra_indices_in_kvcache": Argument((int32(3, 2, 5),)),
}
PREFILL = {
    "q": tensor(torch.bfloat16, 3, sizes=(0, 2)),
    "kv": tensor(torch.bfloat16, 3, sizes=(1, 2), strides=True),
    "indices": tensor(torch.int32, 3, sizes=(0, 1)),
    "sm_scale": Argument((None, *SCALES)),
    "d_v": Argument((256, None)),
    "attn_sink": tensor(torch.float32, 1, sizes=(0,), needed=False),
    "topk_length": tensor(torch.int32, 1, sizes=(0,), needed=False),
    "indexer_topk": Argument((-1, 8, 1.5, "x", None)),
    "out": tensor(torch.bfloat16, 3, sizes=(0, 1, 2), needed=False, strides=True),
}
FLASHINFER = {
    "query": Argument(NO_TENSOR, (torch.bfloat16, torch.float8_e4m3fn), (3,), (0, 2)),
    "swa_kv_cache": tensor(torch.bfloat16, 3, 4, sizes=(1, 3), strides=True, relates=("sparse_topk_lens",)),
    "compressed_kv_cache": tensor(torch.bfloat16, 3, 4, sizes=(1, 3), strides=True),
    "sparse_indices": tensor(torch.int32, 2, sizes=(0,)),
    "sparse_topk_lens": tensor(torch.int32, 1, sizes=(0,)),
    "seq_lens": tensor(torch.int32, 1, sizes=(0,)),
    "out": tensor(torch.bfloat16, 3, sizes=(0, 1, 2), needed=False, strides=True),
    "bmm1_scale": Argument((None, torch.ones(2), *SCALES)),
    "bmm2_scale": Argument((None, torch.ones(2), math.nan, math.inf, "1", [1.0], 1j)),
    "sinks": tensor(torch.float32, 1, sizes=(0,), needed=False),
    "kv_layout": Argument((None, "x", ["HND"])),
    "cum_seq_lens_q": tensor(torch.int32, 1, sizes=(0,), relates=("query",)),
    "max_q_len": Argument((None, 0, -1, 1.5, "x")),
    "backend": Argument((None, "x", ["auto"])),
    "swa_topk_lens": Argument((int32(3),)),
    "extra_sparse_indices": Argument((int32(3, 5),)),
    "extra_sparse_topk_lens": Argument((int32(3),)),
    "sparse_topk_lens_offset": Argument((None, 1.5, "x", 2**31, -(2**31))),
}
PACKED = FLASHINFER | {
    "query": Argument(NO_TENSOR, (torch.bfloat16, torch.float8_e4m3fn), (4,), (0, 1, 3)),
    "swa_kv_cache": Argument(NO_TENSOR, CODES, (3, 4), (1, 3), strides=True, relates=("swa_topk_lens",)),
    "compressed_kv_cache": Argument(NO_TENSOR, CODES, (3, 4), (1, 3), needed=False, strides=True),
    "out": tensor(torch.bfloat16, 4, sizes=(0, 1, 2, 3), needed=False, strides=True),
    "swa_topk_lens": tensor(torch.int32, 1, sizes=(0,), needed=False),
    "extra_sparse_indices": tensor(torch.int32, 2, sizes=(0,)),
    "extra_sparse_topk_lens": tensor(torch.int32, 1, sizes=(0,), needed=False),
    "sparse_topk_lens": Argument((int32(3),)),
    "sparse_topk_lens_offset": Argument((1, "x")),
    "kv_cache_format": Argument((None, "x", "fp8_dsv41", ["fp8"]), relates=("swa_kv_cache",)),
}
for unused in ("seq_lens", "cum_seq_lens_q", "max_q_len"):
    del PACKED[unused]
WITHOUT = {
    "extra_sparse_indices": Argument((int32(3, 5),)),
    "extra_sparse_topk_lens": Argument((int32(3),)),
}
WINDOW_ALONE = PACKED | WITHOUT
del WINDOW_ALONE["compressed_kv_cache"]
CALLS = (
    Call("584", flash_mla_with_kvcache, lambda: decode(512, torch.zeros(6, 16, 1, 584).byte()), FLASH_MLA),
    Call("656", flash_mla_with_kvcache, lambda: decode(576, torch.zeros(6, 16, 1, 656).byte()), FLASH_MLA),
    Call("table", flash_mla_with_kvcache, by_table, TABLE),
    Call("prefill", flash_mla_sparse_fwd, prefill, PREFILL),
    Call("dsv4", trtllm_batch_decode_sparse_mla_dsv4, dsv4, FLASHINFER, (ValueError,)),
    Call("offsets", trtllm_batch_decode_sparse_mla_dsv4, by_offsets, FLASHINFER, (ValueError,)),
    Call("packed", trtllm_batch_decode_sparse_mla_dsv4, packed, PACKED, (ValueError,)),
    Call("window", trtllm_batch_decode_sparse_mla_dsv4, window_alone, WINDOW_ALONE, (ValueError,)),
)


@dataclass(frozen=True)
class Wrong:
    """A wrong value of an argument, what is wrong, and the arguments that the error may name."""

    argument: str
    value: object
    what: str
    named: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.argument}, {self.what}"


def wrong_arguments(call: Call) -> Iterator[Wrong]:
    """Yield all wrong values of the arguments of a call, one by one."""
    right = call.right()
    tensors = tuple(each for each, value in right.items() if isinstance(value, torch.Tensor))
    for name, fact in call.arguments.items():
        own = (name, *fact.relates)
        for value in fact.values:
            yield Wrong(name, value, repr(value), own)
        if fact.dtypes and fact.needed:
            yield Wrong(name, None, "None", own)
        if fact.dtypes:
            for what, value in wrong_layouts(fact, right[name]):
                yield Wrong(name, value, what, own)
            for size in wrong_sizes(fact, right[name]):
                yield Wrong(name, size, f"size {tuple(size.shape)}", tensors)
            yield Wrong(name, right[name].to("meta"), "device", tensors if name in ("q", "query") else own)


def wrong_layouts(fact: Argument, own: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield tensors of another dtype, rank or strides, and one that requires a gradient."""
    for dtype in (each for each in DTYPES if each not in fact.dtypes):
        yield str(dtype), own.to(dtype)
    for rank in (each for each in range(6) if each not in fact.ranks):
        fewer = own.flatten()[:1].view((1,) * rank)
        yield f"rank {rank}", fewer if rank < own.dim() else own[(None,) * (rank - own.dim())]
    yield "last stride", torch.zeros((*own.shape, 2), dtype=own.dtype)[..., 0]
    if own.is_floating_point():
        yield "gradient", own.clone().requires_grad_()
    if not fact.strides:
        return
    yield "address", torch.zeros(own.numel() + 1, dtype=own.dtype)[1:].view(own.shape)
    yield "broadcast", own[:1].expand(own.shape)
    for pad in (1, 2, 3):
        stride = own[0].numel() + pad
        whole = torch.zeros((own.shape[0], stride), dtype=own.dtype)
        yield f"stride(0) {stride}", whole.as_strided(own.shape, (stride, *own.stride()[1:]))


def wrong_sizes(fact: Argument, own: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield tensors of which one size is wrong."""
    for dim in fact.sizes:
        for size in {0, own.shape[dim] - 1, own.shape[dim] + 1, 129} - {own.shape[dim]}:
            yield torch.zeros((*own.shape[:dim], size, *own.shape[dim + 1 :]), dtype=own.dtype)


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_valid_arguments_reach_the_launch(call: Call) -> None:
    q = "query" if "query" in call.right() else "q"
    assert call.raised(call.right()).startswith(f"{q}.device is cpu; allowed: a CUDA device")


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_a_wrong_argument_is_named_before_the_launch(call: Call) -> None:
    """The error names the argument, its value and what is allowed. A call that reaches the launch names q.device."""
    for wrong in wrong_arguments(call):
        said = call.raised(call.right() | {wrong.argument: wrong.value})
        subject, _, rest = said.partition(" is ")
        named = any(each in re.findall(r"\w+", subject) for each in wrong.named)
        assert named and "; allowed: " in rest and "a CUDA device" not in rest, f"{wrong}: {said}"


def test_a_schedule_of_another_shape_is_rejected_before_the_launch() -> None:
    call, meta = CALLS[0], get_mla_metadata()[0]
    meta.use(meta.Config(1, 1, 1, 1, 1, False, True, 1, None, None))
    assert call.raised(call.right() | {"tile_scheduler_metadata": meta}).startswith("tile_scheduler_metadata is for")
