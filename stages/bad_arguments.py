"""Bad arguments of the public calls. Each must be rejected by name before anything is compiled or launched."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

import kernel

Arguments = dict[str, Any]


@dataclass(frozen=True)
class BadCall:
    """A call with one bad argument, and the error that it must raise.

    spoil: makes the bad arguments from valid ones. argument: start of the argument's name in the error; empty for a
    call that is right. allowed: text that the error must contain about the allowed values.
    """

    name: str
    spoil: Callable[[Arguments], Arguments]
    argument: str
    allowed: str = ""

    def __str__(self) -> str:
        return self.name

    def accepted_by(self, call: Callable[..., object], arguments: Arguments) -> str:
        """Make the call. Return "" if it does what is expected, otherwise a line that says what it did."""
        try:
            call(**self.spoil(arguments))
        except kernel.ArgumentError as error:
            said = self.argument and error.name.startswith(self.argument) and self.allowed in error.allowed
            said = said and str(error) == f"{error.name} is {error.seen}; allowed: {error.allowed}"
            return "" if said else f"{self.name}: raised {error}"
        return f"{self.name}: accepted" if self.argument else ""


def bf16(*shape: int, device: str = "cpu") -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.bfloat16, device=device)


def int32(value: int, *shape: int, device: str = "cpu") -> torch.Tensor:
    return torch.full(shape, value, dtype=torch.int32, device=device)


def plain(device: str = "cpu", d: int = 64) -> Arguments:
    """Return valid arguments of kernel.fmha: two sequences of five keys, three tokens, four heads."""
    return {"q": bf16(2, 3, 4, d, device=device), "k": bf16(2, 5, d, device=device), "v": bf16(2, 5, d, device=device)}


def layer(device: str = "cpu") -> Arguments:
    """Return valid arguments of kernel.dsv4.attention: 2 sequences, 9 window rows, 5 compressed keys, 7 indices.

    Lengths and indices include the smallest and the largest that are allowed.
    """
    indices, counts = int32(0, 2, 3, 7, device=device), int32(1, 2, 3, device=device)
    indices[0, 0, 0], indices[1, 2, 6] = -1, 4
    counts[0, 0], counts[1, 2] = 0, 7
    return {
        "q": bf16(2, 3, 4, 64, device=device),
        "swa_kv": bf16(2, 9, 64, device=device),
        "swa_lens": torch.tensor([0, 9], dtype=torch.int32, device=device),
        "cmp_kv": bf16(2, 5, 64, device=device),
        "topk_indices": indices,
        "topk_lens": counts,
        "attn_sink": torch.zeros(4, device=device),
    }


def zeros(a: Arguments, *shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.bfloat16, device=a["q"].device)


def misaligned(a: Arguments, *shape: int) -> torch.Tensor:
    """Return zeros whose address is no multiple of 16 bytes."""
    return zeros(a, math.prod(shape) + 1)[1:].view(shape)


def lens(a: Arguments, value: int, *shape: int) -> torch.Tensor:
    return torch.full(shape, value, dtype=torch.int32, device=a["q"].device)


def without(a: Arguments, *names: str, **more: object) -> Arguments:
    return {name: value for name, value in a.items() if name not in names} | more


def output(q: torch.Tensor, o: torch.Tensor | None = None, **wrong: object) -> kernel.Attention:
    """Return output tensors for the queries `q`, except those given."""
    stats = torch.empty(q.shape[:3], device=q.device)
    right: Arguments = {
        "o": torch.empty_like(q) if o is None else o,
        "lse": stats,
        "u": torch.empty(q.shape, device=q.device),
        "m": stats.clone(),
    }
    return kernel.Attention(**(right | wrong))


def blocks(a: Arguments, **more: object) -> Arguments:
    """Return arguments of the layer with all visible blocks of four tokens."""
    return without(a, "topk_indices", "topk_lens") | {"compress_ratio": 4} | more


def gap_between_results(a: Arguments) -> Arguments:
    """Return arguments with output tensors whose batch and tokens cannot be viewed as one dimension."""
    return a | {"out": output(a["q"], zeros(a, 2, 4, 4, 64)[:, :3], u=None, m=None)}


def heads_first(a: Arguments) -> torch.Tensor:
    """Return [B, T, H, D] zeros like q that are laid out as [B, H, T, D]."""
    return zeros(a, 2, 4, 3, 64).transpose(1, 2)


def queries(a: Arguments, *shape: int) -> Arguments:
    """Return arguments with [B, T, H] queries of any number, all at one address."""
    return a | {"q": a["q"][:1, :1, :1].expand(*shape, 64)}


def parameter(a: Arguments) -> Arguments:
    """Return arguments with queries of another class, for which a call goes through the operator of torch."""
    return a | {"q": torch.nn.Parameter(a["q"], requires_grad=False)}


def at_an_odd_address() -> torch.Tensor:
    """Return two lengths in memory of the CPU that begin at no multiple of 4 bytes."""
    return torch.frombuffer(bytearray(9), dtype=torch.int32, offset=1)


def overlapping(a: Arguments) -> kernel.Attention:
    """Return results whose sequences of o share most of their memory."""
    return output(a["q"], zeros(a, 1024).as_strided((2, 3, 4, 64), (8, 256, 64, 1)))


def one_token_on_a_cpu() -> Arguments:
    """Return arguments with one token, in the results with a stride of 0: valid, but for the device."""
    a = plain() | {"q": bf16(2, 1, 4, 64)}
    return a | {"out": output(a["q"], bf16(2, 4, 64).as_strided((2, 1, 4, 64), (256, 0, 64, 1)))}


def scale_0(a: Arguments, **right: object) -> Arguments:
    """Return arguments at a limit that are valid, and a scale of 0, which is checked after them."""
    return a | right | {"scale": 0.0}


#: Bad arguments of kernel.fmha; `plain` has the valid ones.
FMHA = (
    BadCall("not a tensor", lambda a: a | {"k": [1.0]}, "k", "torch.Tensor"),
    BadCall("dtype of q", lambda a: a | {"q": a["q"].float()}, "q.dtype", "torch.bfloat16"),
    BadCall("dtype of k", lambda a: a | {"k": a["k"].float()}, "k.dtype", "torch.bfloat16"),
    BadCall("dtype of v", lambda a: a | {"v": a["v"].half()}, "v.dtype", "torch.bfloat16"),
    BadCall("rank of q", lambda a: a | {"q": a["q"][0]}, "q.shape", "[B, T, H, D]"),
    BadCall("rank of k", lambda a: a | {"k": a["k"][None]}, "k.shape", "[B, S, D]"),
    BadCall("rows", lambda a: a | {"q": a["q"][:, :1, :1].expand(2, 2**20, 2**12, 64)}, "q.shape[1] * q.shape[2]"),
    BadCall("row tiles", lambda a: a | {"q": a["q"][:1].expand(2**31, 3, 4, 64)}, "q.shape", "tiles of rows"),
    BadCall("row tiles of one token", lambda a: queries(a, 2**31, 1, 1), "q.shape", "tiles of rows"),
    BadCall("row tiles of two tokens", lambda a: queries(a, 2**30, 2, 1), "q.shape", "tiles of rows"),
    BadCall("row tiles of 65 heads", lambda a: queries(a, 2**30, 1, 65), "q.shape", "tiles of rows"),
    BadCall("k beside the most row tiles", lambda a: queries(a, 2**31 - 1, 1, 1), "k.shape", "[B, S, D]"),
    BadCall("k beside the most rows", lambda a: queries(a, 1, 1024, 2**21 - 1), "k.shape", "[B, S, D]"),
    BadCall("number of keys", lambda a: a | {"k": a["k"][:, :1].expand(2, 2**31, 64)}, "k.shape[1]", "at most"),
    BadCall("stride of the most keys", lambda a: a | {"k": a["k"][:, :1].expand(2, 2**31 - 1024, 64)}, "k.stride(1)"),
    BadCall("head dim", lambda a: plain(a["q"].device, d=96), "head_dim", "64"),
    BadCall("keys of v", lambda a: a | {"v": a["v"][:, :3]}, "v.shape", "[B, S, D] = (2, 5, 64)"),
    BadCall("batch of k", lambda a: a | {"k": a["k"][:1]}, "k.shape", "(2, 5, 64)"),
    BadCall("head dim of k", lambda a: a | {"k": zeros(a, 2, 5, 128)}, "k.shape", "64"),
    BadCall("device mix", lambda a: a | {"k": a["k"].to("meta")}, "k.device", "q's device"),
    BadCall("gradient of q", lambda a: a | {"q": a["q"].clone().requires_grad_()}, "q.requires_grad", "no_grad"),
    BadCall("gradient of v", lambda a: a | {"v": a["v"].clone().requires_grad_()}, "v.requires_grad", "no_grad"),
    BadCall("last stride", lambda a: a | {"k": zeros(a, 2, 64, 5).mT}, "k.stride(-1)", "1"),
    BadCall("row stride", lambda a: a | {"k": zeros(a, 2, 5, 68)[..., :64]}, "k.stride(0)", "8"),
    BadCall("address", lambda a: a | {"v": misaligned(a, 2, 5, 64)}, "v.data_ptr", "0"),
    BadCall("address of q", lambda a: a | {"q": misaligned(a, 2, 3, 4, 64)}, "q.data_ptr"),
    BadCall("unpackable", lambda a: a | {"q": heads_first(a)}, "q.stride(1)", "H"),
    BadCall("broadcast", lambda a: a | {"k": a["k"][:1].expand(2, -1, -1)}, "k.stride(0)", "positive"),
    BadCall("scale 0", lambda a: a | {"scale": 0.0}, "scale", "above 0"),
    BadCall("scale nan", lambda a: a | {"scale": float("nan")}, "scale", "finite"),
    BadCall("scale text", lambda a: a | {"scale": "1"}, "scale", "finite"),
    BadCall("sms, scale in a tensor", lambda a: a | {"scale": torch.tensor(0.5), "sms": 3}, "sms", "even"),
    BadCall("scale, one token", lambda a: scale_0(a, q=zeros(a, 2, 1, 5, 64)[:, :, :4]), "scale", "above 0"),
    BadCall("scale, no heads", lambda a: scale_0(a, q=zeros(a, 2, 3, 0, 64)), "scale", "above 0"),
    BadCall("sms 0", lambda a: a | {"sms": 0}, "sms", "an even number above 0"),
    BadCall("sms odd", lambda a: a | {"sms": 3}, "sms", "an even number above 0"),
    BadCall("p_path", lambda a: a | {"p_path": "gmem"}, "p_path", "'tmem' or 'smem'"),
    BadCall("splits 3", lambda a: a | {"splits": 3}, "splits", "(1, 2, 4, 8, 16)"),
    BadCall("lens not a tensor", lambda a: a | {"swa_lens": [1, 5]}, "swa_lens", "torch.Tensor"),
    BadCall("dtype of lens", lambda a: a | {"swa_lens": zeros(a, 2)}, "swa_lens.dtype", "int32"),
    BadCall("shape of lens", lambda a: a | {"swa_lens": lens(a, 1, 3)}, "swa_lens.shape", "(2,)"),
    BadCall("window alone", lambda a: a | {"window": 128}, "window", "causal=True"),
    BadCall("window 0", lambda a: a | {"window": 0, "causal": True}, "window", "1 to"),
    BadCall("window of a billion", lambda a: a | {"window": 2**30 + 1, "causal": True}, "window", "1 to"),
    BadCall("window 1.5", lambda a: a | {"window": 1.5, "causal": True}, "window", "1 to"),
    BadCall("compressed keys alone", lambda a: a | {"compressed": a["k"]}, "compressed", "AllBlocks"),
    BadCall("values beside compressed keys", lambda a: a | {"compressed": all_blocks(a)}, "v", "None with compressed"),
    BadCall("out a tensor", lambda a: a | {"out": a["q"]}, "out", "kernel.Attention"),
    BadCall("out dtype", lambda a: a | {"out": output(a["q"], o=a["q"].float())}, "out.o.dtype", "bfloat16"),
    BadCall("lse dtype", lambda a: a | {"out": output(a["q"], lse=a["q"][..., 0])}, "out.lse.dtype", "float32"),
    BadCall("out missing", lambda a: a | {"out": output(a["q"], u=None)}, "out.u", "torch.Tensor"),
    BadCall("out shape", lambda a: a | {"out": output(a["q"][:, :2].contiguous())}, "out.o.shape", "(2, 3, 4, 64)"),
    BadCall("out unpackable", lambda a: a | {"out": output(a["q"], heads_first(a))}, "out.o.stride(1)", "H"),
    BadCall("out address", lambda a: a | {"out": output(a["q"], misaligned(a, 2, 3, 4, 64))}, "out.o.data_ptr", "0"),
    BadCall("out unasked", lambda a: a | {"out": output(a["q"]), "partials": False}, "out.u", "None"),
    BadCall("out overlaps itself", lambda a: a | {"out": overlapping(a)}, "out.o.stride()", "no elements overlap"),
    BadCall("a CPU that is no GPU", lambda a: plain(), "q.device", "emulator.emulate()"),
    BadCall("a CPU, stride of one token", lambda a: one_token_on_a_cpu(), "q.device", "emulator.emulate()"),
    BadCall("address of lens", lambda a: plain() | {"swa_lens": at_an_odd_address()}, "swa_lens.data_ptr() % 4", "0"),
    BadCall("length above S", lambda a: a | {"swa_lens": lens(a, 6, 2), "debug": True}, "swa_lens", "0 to 5"),
    BadCall("length below 0", lambda a: a | {"swa_lens": lens(a, -1, 2), "debug": True}, "swa_lens", "0 to 5"),
)  # fmt: skip


def all_blocks(a: Arguments) -> kernel.AllBlocks:
    return kernel.AllBlocks(a["k"], lens(a, 5, 2), 4)


def gap_behind_keys(a: Arguments) -> Arguments:
    """Return arguments of the layer with one sequence, behind whose compressed keys is a gap: valid."""
    first = {name: each[:1] for name, each in a.items() if name not in ("attn_sink", "debug")}
    return a | first | {"cmp_kv": zeros(a, 1, 6, 64)[:, :5]}


def one_index(a: Arguments) -> torch.Tensor:
    """Return topk_indices with one index for each token, whose last stride is 7: valid."""
    return lens(a, 0, 2, 3, 7)[..., ::7]


#: Bad arguments of kernel.dsv4.attention, with debug=True; `layer` has the valid ones.
LAYER = (
    BadCall("q not a tensor", lambda a: a | {"q": None}, "q", "torch.Tensor"),
    BadCall("q not a tensor, no window", lambda a: without(a, "swa_kv", "swa_lens", q=1.0), "q", "torch.Tensor"),
    BadCall("lens without keys", lambda a: without(a, "swa_kv"), "swa_lens", "None without swa_kv"),
    BadCall("indices without keys", lambda a: without(a, "cmp_kv"), "topk_indices", "None without cmp_kv"),
    BadCall("ratio without keys", lambda a: without(blocks(a), "cmp_kv"), "compress_ratio", "None without cmp_kv"),
    BadCall("lens without indices", lambda a: without(a, "topk_indices"), "topk_lens", "None without topk_indices"),
    BadCall("indices not a tensor", lambda a: a | {"topk_indices": [0]}, "topk_indices", "torch.Tensor"),
    BadCall("indices' lens not a tensor", lambda a: a | {"topk_lens": 7}, "topk_lens", "torch.Tensor"),
    BadCall("positions not a tensor", lambda a: blocks(a, seq_lens=9), "seq_lens", "torch.Tensor"),
    BadCall("sink not a tensor", lambda a: a | {"attn_sink": 0.0}, "attn_sink", "torch.Tensor"),
    BadCall("no ratio", lambda a: without(a, "topk_indices", "topk_lens"), "compress_ratio", "above 0"),
    BadCall("no position", lambda a: without(blocks(a), "swa_kv", "swa_lens"), "seq_lens", "[B] int32"),
    BadCall("ratio 0", lambda a: blocks(a, compress_ratio=0), "compress_ratio", "above 0"),
    BadCall("ratio and indices", lambda a: a | {"compress_ratio": 4}, "compress_ratio", "None with topk_indices"),
    BadCall("position and indices", lambda a: a | {"seq_lens": a["swa_lens"]}, "seq_lens", "None with topk_indices"),
    BadCall("dtype of positions", lambda a: blocks(a, seq_lens=a["swa_lens"].long()), "seq_lens.dtype", "int32"),
    BadCall("shape of positions", lambda a: blocks(a, seq_lens=a["swa_lens"][:1]), "seq_lens.shape", "(2,)"),
    BadCall("topk dtype", lambda a: a | {"topk_indices": a["topk_indices"].long()}, "topk_indices.dtype", "int32"),
    BadCall("topk shape", lambda a: a | {"topk_indices": a["topk_indices"][:, :2]}, "topk_indices.shape", "[B, T"),
    BadCall("shape of lens", lambda a: a | {"topk_lens": a["topk_lens"][0]}, "topk_lens.shape", "[B, T]"),
    BadCall("tokens of lens", lambda a: a | {"topk_lens": a["topk_lens"][:, :2]}, "topk_lens.shape", "[B, T] = (2, 3)"),
    BadCall("dtype of lens", lambda a: a | {"topk_lens": a["topk_lens"].long()}, "topk_lens.dtype", "int32"),
    BadCall("shape of keys", lambda a: a | {"cmp_kv": a["cmp_kv"][:1]}, "cmp_kv.shape", "[B, S_c, D]"),
    BadCall("dtype of keys", lambda a: a | {"cmp_kv": a["cmp_kv"].float()}, "cmp_kv.dtype", "torch.bfloat16"),
    BadCall("number of blocks", lambda a: a | {"cmp_kv": a["cmp_kv"][:, :1].expand(2, 2**30, 64)}, "cmp_kv.shape[0]"),
    BadCall("most blocks", lambda a: a | {"cmp_kv": a["cmp_kv"][:, :1].expand(2, 2**30 - 512, 64)}, "cmp_kv.stride(1)"),
    BadCall("address of keys", lambda a: a | {"cmp_kv": misaligned(a, 2, 5, 64)}, "cmp_kv.data_ptr", "0"),
    BadCall("dtype of the window's keys", lambda a: a | {"swa_kv": a["swa_kv"].float()}, "swa_kv.dtype", "bfloat16"),
    BadCall("gap between keys", lambda a: a | {"cmp_kv": zeros(a, 2, 6, 64)[:, :5]}, "cmp_kv.stride"),
    BadCall("gap between indices", lambda a: a | {"topk_indices": lens(a, 0, 2, 4, 7)[:, :3]}, "topk_indices.stride"),
    BadCall("gap between lens", lambda a: a | {"topk_lens": lens(a, 1, 2, 4)[:, :3]}, "topk_lens.stride"),
    BadCall("gap between queries", lambda a: a | {"q": zeros(a, 2, 4, 4, 64)[:, :3]}, "q.stride"),
    BadCall("gap between results", gap_between_results, "out.o.stride"),
    BadCall("lens, gap behind keys", lambda a: gap_behind_keys(a) | {"topk_lens": 7}, "topk_lens", "torch.Tensor"),
    BadCall("lens, no keys", lambda a: a | {"cmp_kv": zeros(a, 2, 0, 64), "topk_lens": 7}, "topk_lens", "torch.Tensor"),
    BadCall("lens, one index", lambda a: a | {"topk_indices": one_index(a), "topk_lens": 7}, "topk_lens", "Tensor"),
    BadCall("shape of sink", lambda a: a | {"attn_sink": a["attn_sink"][:3]}, "attn_sink.shape", "[H]"),
    BadCall("dtype of sink", lambda a: a | {"attn_sink": a["attn_sink"].bfloat16()}, "attn_sink.dtype", "float32"),
    BadCall("sink, no window", lambda a: without(a, "swa_kv", "swa_lens", attn_sink=0.0), "attn_sink", "torch.Tensor"),
    BadCall("scale", lambda a: a | {"softmax_scale": -1.0}, "softmax_scale", "above 0"),
    BadCall("splits 3", lambda a: a | {"splits": 3}, "splits", "(1, 2, 4, 8, 16)"),
    BadCall("sms odd", lambda a: a | {"sms": 3}, "sms", "an even number above 0"),
    BadCall("window 0", lambda a: a | {"window": 0}, "window", "1 to"),
    BadCall("index past the end", lambda a: a | {"topk_indices": a["topk_indices"] + 5}, "topk_indices", "-1 to 4"),
    BadCall("index below -1", lambda a: a | {"topk_indices": a["topk_indices"] - 2}, "topk_indices", "-1 to 4"),
    BadCall("length above K", lambda a: a | {"topk_lens": a["topk_lens"] + 7}, "topk_lens", "0 to 7"),
    BadCall("length below 0", lambda a: a | {"topk_lens": a["topk_lens"] - 2}, "topk_lens", "0 to 7"),
    BadCall("length above S", lambda a: a | {"swa_lens": a["swa_lens"] + 1}, "swa_lens", "0 to 9"),
    BadCall("more blocks than rows", lambda a: blocks(a, seq_lens=a["swa_lens"] + 15), "seq_lens", "0 to 23"),
    BadCall("position below 0", lambda a: blocks(a, seq_lens=a["swa_lens"] - 4), "seq_lens", "0 to 23"),
)  # fmt: skip


def serving(device: str = "cpu") -> Arguments:
    """Return valid arguments of kernel.serving.attention: two caches, 2 sequences, 3 tokens, 4 heads."""
    pages = bf16(3, 5, 1, 512, device=device), bf16(4, 2, 512, device=device)
    indices = int32(0, 2, 3, 7, device=device), int32(-1, 2, 3, 9, device=device)
    return {
        "q": bf16(2, 3, 4, 512, device=device),
        "main": kernel.serving.IndexedCache(pages[0], indices[0], int32(7, 2, device=device)),
        "extra": kernel.serving.IndexedCache(pages[1], indices[1], int32(9, 2, 3, device=device)),
        "sink": torch.zeros(4, device=device),
    }


def cache(a: Arguments, name: str, **wrong: object) -> Arguments:
    """Return arguments with other fields of a cache."""
    return a | {name: replace(a[name], **wrong)}


def table(a: Arguments, **wrong: object) -> Arguments:
    """Return arguments with a block table in place of the first cache's indices."""
    device = a["q"].device
    right: Arguments = {"table": int32(0, 2, 3, device=device), "seq_lens": int32(9, 2, device=device), "window": 4}
    return a | {"main": kernel.serving.TableCache(**({"pages": a["main"].pages} | right | wrong))}


def codes(a: Arguments, *shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.uint8, device=a["q"].device)


def misaligned_output(a: Arguments) -> kernel.Attention:
    """Return results whose o begins at no multiple of 16 bytes."""
    return output(a["q"], misaligned(a, 2, 3, 4, 512), u=None, m=None)


def one_token(a: Arguments, pages: torch.Tensor, page_scales: bool = False) -> Arguments:
    """Return arguments with one token, which lists keys of one cache. Strides of its row of indices are 0."""
    indices = lens(a, 0, 7).to(pages.device).as_strided((1, 1, 7), (0, 0, 1))
    main = kernel.serving.IndexedCache(pages, indices, page_scales=page_scales)
    return {"q": bf16(1, 1, 4, 512, device=pages.device.type), "main": main}


def on_meta(pages: int, size: int) -> torch.Tensor:
    """Return pages of `size` keys, without memory."""
    return bf16(pages, size, 512, device="meta")


def long_pages(a: Arguments) -> torch.Tensor:
    """Return a page of 2^20 keys, each of which begins 16 bytes after the previous one."""
    return zeros(a, 2**23 + 512).as_strided((1, 2**20, 512), (2**23, 8, 1))


def row(a: Arguments, *values: int) -> torch.Tensor:
    """Return two equal rows of a block table."""
    return torch.tensor([values, values], dtype=torch.int32, device=a["q"].device)


def uncounted(a: Arguments) -> Arguments:
    """Return valid arguments whose first cache has indices past the last key, none of which counts."""
    indices = torch.cat([lens(a, 0, 2, 3, 3), lens(a, 15, 2, 3, 4)], dim=2)
    return cache(a, "main", indices=indices, lens=lens(a, 3, 2))


def unseen_page(a: Arguments) -> Arguments:
    """Return valid arguments whose block table has a page past the last one, which no token sees."""
    return table(a, table=row(a, 0, 0, 3), seq_lens=lens(a, 10, 2))


def unseen_first_pages(a: Arguments) -> Arguments:
    """Return valid arguments whose block table has pages past the last one, which end where the window begins."""
    return table(a, table=row(a, 3, 3, 0, 0), seq_lens=lens(a, 16, 2))


#: Bad arguments of kernel.serving.attention, with debug=True; `serving` has the valid ones.
SERVING = (
    BadCall("rank of q", lambda a: a | {"q": a["q"][0]}, "q.shape", "[B, T, H, D]"),
    BadCall("dtype of q", lambda a: a | {"q": a["q"].half()}, "q.dtype", "bfloat16"),
    BadCall("640 columns", lambda a: a | {"q": zeros(a, 2, 3, 4, 640)}, "q.shape", "(512, 576)"),
    BadCall("576 columns", lambda a: a | {"q": zeros(a, 2, 3, 4, 576)}, "main.pages.shape", "576 columns of q"),
    BadCall("129 heads", lambda a: a | {"q": zeros(a, 2, 3, 129, 512)}, "q.shape[2]", "at most 128"),
    BadCall("tokens", lambda a: a | {"q": a["q"][:1, :1].expand(2**30, 1, 4, 512)}, "q.shape", "tokens"),
    BadCall("address of q", lambda a: a | {"q": misaligned(a, 2, 3, 4, 512)}, "q.data_ptr", "0"),
    BadCall("row stride of q", lambda a: a | {"q": zeros(a, 2, 3, 4, 516)[..., :512]}, "q.stride(2)", "8"),
    BadCall("no cache", lambda a: a | {"main": None}, "main", "IndexedCache"),
    BadCall("second cache by a table", lambda a: a | {"extra": table(a)["main"]}, "extra", "IndexedCache"),
    BadCall("pages not a tensor", lambda a: cache(a, "main", pages=1), "main.pages", "torch.Tensor"),
    BadCall("dtype of pages", lambda a: cache(a, "main", pages=a["main"].pages.half()), "main.pages.dtype", "584"),
    BadCall("656 bytes", lambda a: cache(a, "main", pages=codes(a, 3, 4, 1, 656)), "main.pages.shape", "or 288 bytes"),
    BadCall("256 columns", lambda a: cache(a, "extra", pages=zeros(a, 3, 4, 256)), "extra.pages.shape", "512 bf16"),
    BadCall("two heads", lambda a: cache(a, "main", pages=zeros(a, 3, 4, 2, 512)), "main.pages.shape", "[P, N, 1, D]"),
    BadCall("no keys", lambda a: cache(a, "main", pages=zeros(a, 0, 4, 512)), "main.pages.shape", "at least one key"),
    BadCall("page stride", lambda a: cache(a, "main", pages=codes(a, 3, 5, 584)), "main.pages.stride(0)", "16"),
    BadCall("key stride", lambda a: cache(a, "main", pages=codes(a, 3, 4, 600)[..., :584]), "main.pages.stride(1)"),
    BadCall("2^31 bytes", lambda a: one_token(a, on_meta(1, 2**21)), "main.pages.shape[1]", "2^31"),
    BadCall("2^31 keys", lambda a: one_token(a, on_meta(2**22, 2**9)), "main.pages.shape[0] * main.pages.shape[1]"),
    BadCall("layouts", lambda a: cache(a, "extra", pages=codes(a, 3, 4, 584)), "caches", "one layout"),
    BadCall("a layout and V4.1's", lambda a: cache(a, "extra", pages=codes(a, 3, 4, 288)), "caches", "288 bytes"),
    BadCall("page_scales of bf16", lambda a: cache(a, "extra", page_scales=True), "extra.page_scales", "512 bf16"),
    BadCall("page_scales 1", lambda a: cache(a, "main", page_scales=1), "main.page_scales", "True or False"),
    BadCall("apart", lambda a: one_token(a, codes(a, 3, 4, 544)[..., :528], True), "main.pages.stride(1)", "528"),
    BadCall("dtype of indices", lambda a: cache(a, "main", indices=a["main"].indices.long()), "main.indices.dtype"),
    BadCall("shape of indices", lambda a: cache(a, "extra", indices=a["extra"].indices[:1]), "extra.indices.shape"),
    BadCall("indices not a tensor", lambda a: cache(a, "main", indices=0), "main.indices", "torch.Tensor"),
    BadCall("no indices", lambda a: cache(a, "main", indices=a["main"].indices[..., :0]), "main.indices.shape[2]", "1"),
    BadCall("shape of lengths", lambda a: cache(a, "main", lens=lens(a, 1, 3)), "main.lens.shape", "(2,)"),
    BadCall("dtype of lengths", lambda a: cache(a, "main", lens=zeros(a, 2)), "main.lens.dtype", "int32"),
    BadCall("lengths of tokens", lambda a: cache(a, "extra", lens=lens(a, 1, 2, 4)), "extra.lens.shape", "(2, 3)"),
    BadCall("lengths not a tensor", lambda a: cache(a, "main", lens=7), "main.lens", "torch.Tensor"),
    BadCall("pages of a table", lambda a: table(a, pages=1), "main.pages", "torch.Tensor"),
    BadCall("table not a tensor", lambda a: table(a, table=0), "main.table", "torch.Tensor"),
    BadCall("dtype of the table", lambda a: table(a, table=lens(a, 0, 2, 3).long()), "main.table.dtype", "int32"),
    BadCall("shape of the table", lambda a: table(a, table=lens(a, 0, 3, 3)), "main.table.shape", "[B, M]"),
    BadCall("no columns", lambda a: table(a, table=lens(a, 0, 2, 0)), "main.table.shape[1]", "1 to"),
    BadCall("columns", lambda a: table(a, pages=long_pages(a), table=lens(a, 0, 2, 2048)), "main.table.shape", "2047"),
    BadCall("seq_lens not a tensor", lambda a: table(a, seq_lens=9), "main.seq_lens", "torch.Tensor"),
    BadCall("length of seq_lens", lambda a: table(a, seq_lens=lens(a, 9, 3)), "main.seq_lens.shape", "[B] = (2,)"),
    BadCall("shape of seq_lens", lambda a: table(a, seq_lens=lens(a, 0, 2, 3)), "main.seq_lens.shape", "[B]"),
    BadCall("window 0", lambda a: table(a, window=0), "main.window", "1 to"),
    BadCall("window 1.5", lambda a: table(a, window=1.5), "main.window", "1 to"),
    BadCall("index", lambda a: cache(a, "main", indices=lens(a, 15, 2, 3, 7)), "main.indices", "-1 to 14"),
    BadCall("index below -1", lambda a: cache(a, "extra", indices=lens(a, -2, 2, 3, 9)), "extra.indices", "-1 to 7"),
    BadCall("length above K", lambda a: cache(a, "main", lens=lens(a, 8, 2)), "main.lens", "0 to 7"),
    BadCall("length below 0", lambda a: cache(a, "extra", lens=lens(a, -1, 2, 3)), "extra.lens", "0 to 9"),
    BadCall("page", lambda a: table(a, table=lens(a, 3, 2, 3)), "main.table", "0 to 2"),
    BadCall("first page seen", lambda a: table(a, table=row(a, 0, 3, 0), seq_lens=lens(a, 15, 2)), "main.table"),
    BadCall("sequence length", lambda a: table(a, seq_lens=lens(a, 16, 2)), "main.seq_lens", "0 to 15"),
    BadCall("shape of the sink", lambda a: a | {"sink": a["sink"][:3]}, "sink.shape", "[H]"),
    BadCall("scale, one row", lambda a: scale_0(one_token(a, a["main"].pages)), "scale", "above 0"),
    BadCall("scale, largest pages", lambda a: scale_0(one_token(a, on_meta(1024, 2**21 - 1))), "scale", "above 0"),
    BadCall("scale, gaps", lambda a: scale_0(one_token(a, codes(a, 3, 4, 544)[..., :528])), "scale"),
    BadCall("scale, one key", lambda a: scale_0(one_token(a, codes(a, 3, 1, 592)[..., :584])), "scale"),
    BadCall("scale, window 1", lambda a: scale_0(table(a, window=1)), "scale", "above 0"),
    BadCall("scale, one column", lambda a: scale_0(table(a, table=lens(a, 0, 2, 1))), "scale", "above 0"),
    BadCall("scale 0", lambda a: a | {"scale": 0.0}, "scale", "above 0"),
    BadCall("sms odd", lambda a: a | {"sms": 3}, "sms", "even"),
    BadCall("splits 3", lambda a: a | {"splits": 3}, "splits", "(1, 2, 4, 8, 16)"),
    BadCall("split and invariant", lambda a: a | {"splits": 2, "batch_invariant": True}, "splits", "1 or 'auto'"),
    BadCall("splits, lengths", lambda a: uncounted(a) | {"splits": 3}, "splits", "(1, 2, 4, 8, 16)"),
    BadCall("splits, pages", lambda a: unseen_page(a) | {"splits": 3}, "splits", "(1, 2, 4, 8, 16)"),
    BadCall("splits, first pages", lambda a: unseen_first_pages(a) | {"splits": 3}, "splits", "(1, 2, 4, 8, 16)"),
    BadCall("sms odd by the operator", lambda a: parameter(a) | {"sms": 3}, "sms", "even"),
    BadCall("out a tensor", lambda a: a | {"out": a["q"]}, "out", "kernel.Attention"),
    BadCall("out missing", lambda a: a | {"out": output(a["q"], u=None, m=None), "maxima": True}, "out.m", "Tensor"),
    BadCall("out unasked", lambda a: a | {"out": output(a["q"], u=None)}, "out.m", "None when maxima=False"),
    BadCall("out with U", lambda a: a | {"out": output(a["q"])}, "out.u", "None"),
    BadCall("out shape", lambda a: a | {"out": output(a["q"][:1], u=None, m=None)}, "out.o.shape", "[B, T, H, 512]"),
    BadCall("out address", lambda a: a | {"out": misaligned_output(a)}, "out.o.data_ptr", "0"),
)  # fmt: skip


def sparse(device: str = "cpu") -> Arguments:
    """Return valid arguments of kernel.serving.sparse_attention: 15 keys, 3 tokens, 4 heads, 7 indices."""
    return {
        "q": bf16(3, 4, 512, device=device),
        "kv": bf16(15, 512, device=device),
        "indices": int32(0, 3, 7, device=device),
        "lens": int32(7, 3, device=device),
    }


def output_of_tokens(a: Arguments) -> kernel.Attention:
    """Return results for more tokens than the queries have."""
    return kernel.Attention(zeros(a, 4, 4, 512), torch.empty(4, 4, device=a["q"].device))


#: Bad arguments of kernel.serving.sparse_attention; `sparse` has the valid ones. No tokens are right.
SPARSE = (
    BadCall("no tokens", lambda a: {name: each if name == "kv" else each[:0] for name, each in a.items()}, ""),
    BadCall("rank of q", lambda a: a | {"q": a["q"][None]}, "q.shape", "[T, H, D]"),
    BadCall("kv not a tensor", lambda a: a | {"kv": 1.0}, "kv", "torch.Tensor [S, D]"),
    BadCall("columns of kv", lambda a: a | {"kv": zeros(a, 15, 576)}, "kv.shape", "[S, D] = (15, 512)"),
    BadCall("dtype of kv", lambda a: a | {"kv": codes(a, 15, 512)}, "kv.dtype", "torch.bfloat16"),
    BadCall("indices not a tensor", lambda a: a | {"indices": 0}, "indices", "torch.Tensor [T, K]"),
    BadCall("tokens of indices", lambda a: a | {"indices": a["indices"][:2]}, "indices.shape", "[T, K] = (3, 7)"),
    BadCall("lens not a tensor", lambda a: a | {"lens": 7}, "lens", "torch.Tensor [T]"),
    BadCall("length of lens", lambda a: a | {"lens": a["lens"][:2]}, "lens.shape", "[T] = (3,)"),
    BadCall("out a tensor", lambda a: a | {"out": a["q"]}, "out", "kernel.Attention"),
    BadCall("out shape", lambda a: a | {"out": output_of_tokens(a)}, "out.o.shape", "[T, H, 512] = (3, 4, 512)"),
    BadCall("sms odd by the operator", lambda a: parameter(a) | {"sms": 3}, "sms", "even"),
)  # fmt: skip


#: A bad argument of kernel.fmha where torch calls its operator, which imports a second's worth of modules.
OPERATOR = (BadCall("sms 0 by the operator", lambda a: parameter(a) | {"sms": 0}, "sms", "an even number above 0"),)


def branches(device: str = "cpu") -> Arguments:
    """Return valid arguments of kernel.merge: one branch with its partials, and a sink."""
    return {"branches": [output(plain(device)["q"])], "sink": torch.zeros(4, device=device)}


def spoiled(a: Arguments, **wrong: object) -> Arguments:
    return a | {"branches": [*a["branches"], replace(a["branches"][0], **wrong)]}


#: Bad arguments of kernel.merge; `branches` has the valid ones.
MERGE = (
    BadCall("no branch", lambda a: a | {"branches": []}, "branches", "at least one"),
    BadCall("no partials", lambda a: spoiled(a, u=None, m=None), "branches[1].u or .m", "partials=True"),
    BadCall("no maximum", lambda a: spoiled(a, m=None), "branches[1].u or .m", "partials=True"),
    BadCall("U not a tensor", lambda a: spoiled(a, u=1.0), "branches[1].u", "torch.Tensor"),
    BadCall("dtype of lse", lambda a: spoiled(a, lse=a["branches"][0].lse.double()), "branches[1].lse.dtype", "32"),
    BadCall("shape of m", lambda a: spoiled(a, m=a["branches"][0].m[:1]), "branches[1].m.shape", "[B, T, H]"),
    BadCall("shape of U", lambda a: spoiled(a, u=a["branches"][0].u[:, :1]), "branches[1].u.shape", "[B, T, H, D]"),
    BadCall("shape of sink", lambda a: a | {"sink": a["sink"][:3]}, "sink.shape", "[H]"),
    BadCall("dtype of sink", lambda a: a | {"sink": a["sink"].double()}, "sink.dtype", "float32"),
)  # fmt: skip


def parts(device: str = "cpu") -> Arguments:
    """Return valid arguments of kernel.merge_outputs: one pair of o [4, 8] and lse, and a sink."""
    o = torch.zeros(4, 8, device=device)
    return {"parts": [(o, o[:, 0].clone())], "sink": o[:, 1].clone()}


def second(a: Arguments, o: object = None, lse: object = None) -> Arguments:
    """Return arguments with a second pair, of which `o` or `lse` is another."""
    first = a["parts"][0]
    return a | {"parts": [first, (first[0] if o is None else o, first[1] if lse is None else lse)]}


def of_rank(a: Arguments, rank: int) -> Arguments:
    """Return arguments with o of `rank` dimensions, and a sink of too many heads, which is checked after o and lse."""
    o = torch.zeros((1,) * (rank - 1) + (8,), device=a["sink"].device)
    return {"parts": [(o, o[..., 0].clone())], "sink": a["sink"]}


#: Bad arguments of kernel.merge_outputs; `parts` has the valid ones.
MERGE_OUTPUTS = (
    BadCall("no part", lambda a: a | {"parts": []}, "parts", "at least one pair"),
    BadCall("o not a tensor", lambda a: a | {"parts": [(1.0, 1.0)]}, "parts[0][0]", "torch.Tensor [..., H, D]"),
    BadCall("rank 1", lambda a: of_rank(a, 1), "parts[0][0].shape", "rank 2"),
    BadCall("rank 9", lambda a: of_rank(a, 9), "parts[0][0].shape", "or 8, [..., H, D]"),
    BadCall("sink, rank 2", lambda a: of_rank(a, 2), "sink.shape", "[H] = (1,)"),
    BadCall("sink, rank 8", lambda a: of_rank(a, 8), "sink.shape", "[H] = (1,)"),
    BadCall("lse not a tensor", lambda a: second(a, lse=1.0), "parts[1][1]", "torch.Tensor"),
    BadCall("shape of o", lambda a: second(a, o=a["parts"][0][0][:3]), "parts[1][0].shape", "(4, 8)"),
    BadCall("shape of lse", lambda a: second(a, lse=a["sink"][:3]), "parts[1][1].shape", "[..., H] = (4,)"),
    BadCall("dtype of o", lambda a: second(a, o=a["parts"][0][0].half()), "parts[1][0].dtype", "bfloat16 or"),
    BadCall("dtype of lse", lambda a: second(a, lse=a["sink"].bfloat16()), "parts[1][1].dtype", "torch.float32"),
    BadCall("sink not a tensor", lambda a: a | {"sink": 0.0}, "sink", "torch.Tensor [H]"),
    BadCall("dtype of sink", lambda a: a | {"sink": a["sink"].double()}, "sink.dtype", "float32"),
)  # fmt: skip


def accepted(table: str, device: str) -> list[str]:
    """Make the bad calls of a table, such as "fmha". Return a line for each that was not rejected by name."""
    tables: dict[str, tuple[tuple[BadCall, ...], Callable[..., object], Arguments]] = {
        "fmha": (FMHA, kernel.fmha, plain(device)),
        "operator": (OPERATOR, kernel.fmha, plain(device)),
        "layer": (LAYER, kernel.dsv4.attention, layer(device) | {"debug": True}),
        "merge": (MERGE, kernel.merge, branches(device)),
        "merge_outputs": (MERGE_OUTPUTS, kernel.merge_outputs, parts(device)),
        "serving": (SERVING, kernel.serving.attention, serving(device) | {"debug": True}),
        "sparse": (SPARSE, kernel.serving.sparse_attention, sparse(device)),
    }
    bad, call, arguments = tables[table]
    return [line for each in bad if (line := each.accepted_by(call, arguments))]
