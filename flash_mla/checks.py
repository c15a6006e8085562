"""Checks of arguments that kernel.serving does not have, and the kinds of errors that FlashMLA raises."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch

from flash_mla.metadata import FlashMLASchedMeta
from kernel.checks import check_rank
from kernel.errors import ArgumentError
from kernel.layouts import QUANTISED

D_V = 512
#: Names of kernel.serving's arguments, and their names here.
NAMES = {
    "caches": "the layout of k_cache and extra_k_cache",
    "main.pages": "k_cache",
    "main.indices": "indices",
    "main.lens": "topk_length",
    "main.table": "block_table",
    "main.seq_lens": "cache_seqlens",
    "main.page_scales": "page_scales",
    "extra.page_scales": "page_scales",
    "extra.pages": "extra_k_cache",
    "extra.indices": "extra_indices_in_kvcache",
    "extra.lens": "extra_topk_length",
    "lens": "topk_length",
    "out.o": "out",
    "sink": "attn_sink",
    "scale": "softmax_scale",
}


@contextmanager
def errors_of_flash_mla(names: Mapping[str, str] | None = None) -> Iterator[None]:
    """Raise an ArgumentError as RuntimeError, with the names of arguments here.

    names: those that differ from NAMES.
    """
    try:
        yield
    except ArgumentError as error:
        raise RuntimeError(str(error.renamed({**NAMES, **(names or {})}))) from None


def asserts(holds: bool, name: str, seen: object, allowed: str) -> None:
    """Raise AssertionError where FlashMLA does, unless a condition holds."""
    if not holds:
        raise AssertionError(str(ArgumentError(name, seen, allowed)))


def check_options(schedule: object, num_splits: object, head_dim_v: object, **flags: object) -> None:
    """Check the arguments of decode that are no tensors."""
    allowed = "a FlashMLASchedMeta, from get_mla_metadata()"
    asserts(isinstance(schedule, FlashMLASchedMeta), "tile_scheduler_metadata", type(schedule).__name__, allowed)
    asserts(num_splits is None, "num_splits", type(num_splits).__name__, "None")
    check_head_dim("head_dim_v", head_dim_v)
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise ArgumentError(name, repr(flag), "True or False")


def check_head_dim(name: str, head_dim: object) -> None:
    """Check the number of columns of the values."""
    if head_dim != D_V:
        raise ArgumentError(name, repr(head_dim), str(D_V))


def check_keys(name: str, pages: torch.Tensor) -> None:
    """Check the rank of a cache, and that FlashMLA has its layout there. The rest is checked by kernel.serving."""
    check_rank(name, pages, (3, 4), "[pages, page, 1, d] or [pages, page, d]")
    if pages.dtype == torch.bfloat16:
        return
    size, dim = pages.shape[-1], pages.dim() - 1
    if size == QUANTISED["v41_fp4"].bytes and name == "k_cache":
        raise ArgumentError(f"{name}.shape[{dim}]", size, "in extra_k_cache alone")
    if size == QUANTISED["e4m3"].bytes:
        raise ArgumentError(f"{name}.shape[{dim}]", size, "bytes of keys with scales, or bf16")


def check_extra(extra_k_cache: torch.Tensor | None, **others: object) -> None:
    """Check that the arguments of a second cache come together, and their ranks."""
    if extra_k_cache is None:
        for name in (name for name, given in others.items() if given is not None):
            raise ArgumentError("extra_k_cache", None, f"a tensor with {name}")
        return
    check_keys("extra_k_cache", extra_k_cache)
    check_rank(
        "extra_indices_in_kvcache", others["extra_indices_in_kvcache"], (3,), "[b, s_q, topk] with extra_k_cache"
    )


def check_without_indices(**others: object) -> None:
    """Check the arguments of decode that go with indices: they are None without."""
    for name, given in others.items():
        asserts(given is None, name, type(given).__name__, "None if indices is None")
