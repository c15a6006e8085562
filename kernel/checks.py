"""Checks of the host call's arguments. Each raises ArgumentError. Only `check_values` reads elements of tensors."""

from __future__ import annotations

import math
import numbers
import operator
import sys
from collections.abc import Sequence
from typing import Any

import torch

from kernel.arguments import TMA_ALIGN_BYTES
from kernel.errors import ArgumentError
from kernel.tensors import AllBlocks, Attention, TopkBlocks
from kernel.tracing import traced

MAX_KEYS = 2**31 - 1024  # key and row numbers have 32 bits, also those of a tile that reaches past the end
MAX_CTAS = 2**31 - 1  # gridDim.x
SMALLEST_TILE = 64  # rows of a CTA at head dim 512
UNBOUNDED = 2**30  # a window wider than any sequence


def check_inputs(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor | None) -> None:
    """Check dtypes, shapes and layouts of q, k and v."""
    check_tensor("q", q, torch.bfloat16, 4, "[B, T, H, D]", q)
    batch, tokens, heads, head_dim = q.shape
    if tokens * heads > MAX_KEYS:
        raise ArgumentError("q.shape[1] * q.shape[2]", tokens * heads, f"at most {MAX_KEYS}")
    if batch * max(tokens, -(-tokens * heads // SMALLEST_TILE)) > MAX_CTAS:
        raise ArgumentError("q.shape", tuple(q.shape), f"at most {MAX_CTAS} tiles of rows")
    for name, tensor in (("k", k), ("v", v)):
        if tensor is None:
            continue
        check_tensor(name, tensor, torch.bfloat16, 3, "[B, S, D]", q)
        keys = k.shape[1]
        check_shape(name, tensor, (batch, keys, head_dim), "[B, S, D]")
        if keys > MAX_KEYS:
            raise ArgumentError(f"{name}.shape[1]", keys, f"at most {MAX_KEYS}")
        check_alignment(name, tensor)
    check_alignment("q", q)
    check_packs("q", q)


def check_mask(q: torch.Tensor, swa_lens: torch.Tensor | None, causal: bool, window: int | None) -> None:
    """Check the lengths, and that a window comes with a causal mask."""
    if swa_lens is not None:
        check_tensor("swa_lens", swa_lens, torch.int32, 1, "[B]", q)
        check_shape("swa_lens", swa_lens, q.shape[:1], "[B]")
    if window is not None:
        if not causal:
            raise ArgumentError("window", window, "None unless causal=True")
        if not (isinstance(window, int) and 0 < window <= UNBOUNDED):
            raise ArgumentError("window", window, f"None or 1 to {UNBOUNDED}")


def plain(scale: Any) -> Any:
    """Return a number of numpy, or in a tensor on the CPU without dimensions, as a float; others as they are."""
    elsewhere = isinstance(scale, torch.Tensor) and (scale.device.type != "cpu" or traced(scale))
    scale = scale.item() if getattr(scale, "ndim", None) == 0 and not elsewhere else scale
    return float(scale) if isinstance(scale, numbers.Real) and not isinstance(scale, bool) else scale


def whole(number: Any) -> Any:
    """Return an integer of numpy as an int; others as they are."""
    return operator.index(number) if isinstance(number, numbers.Integral) else number


def check_scale(scale: float) -> None:
    """Check that the scale is a finite number above 0."""
    if not (isinstance(scale, int | float) and math.isfinite(scale) and scale > 0):
        raise ArgumentError("scale", scale, "a finite number above 0")


def check_sms(sms: int | None) -> None:
    """Check the number of CTAs: even, because CTA pairs need two."""
    if sms is not None and not (isinstance(sms, int) and sms > 0 and sms % 2 == 0):
        raise ArgumentError("sms", sms, "None or an even number above 0")


def check_compressed(q: torch.Tensor, v: torch.Tensor | None, branch: AllBlocks | TopkBlocks | None) -> None:
    """Check the compressed keys, and what says which of them a token sees."""
    if branch is None:
        return
    if not isinstance(branch, AllBlocks | TopkBlocks):
        raise ArgumentError("compressed", type(branch).__name__, "AllBlocks, TopkBlocks or None")
    if v is not None:
        raise ArgumentError("v", "a tensor", "None with compressed keys, which are keys and values at once")
    batch, tokens, _, head_dim = q.shape
    check_tensor("compressed.kv", branch.kv, torch.bfloat16, 3, "[B, S_c, D]", q)
    keys = branch.kv.shape[1]
    check_shape("compressed.kv", branch.kv, (batch, keys, head_dim), "[B, S_c, D]")
    if batch * keys > MAX_KEYS:
        raise ArgumentError("compressed.kv.shape[0] * compressed.kv.shape[1]", batch * keys, f"at most {MAX_KEYS}")
    check_alignment("compressed.kv", branch.kv)
    if isinstance(branch, AllBlocks):
        check_tensor("compressed.seq_lens", branch.seq_lens, torch.int32, 1, "[B]", q)
        check_shape("compressed.seq_lens", branch.seq_lens, (batch,), "[B]")
        if not (isinstance(whole(branch.ratio), int) and branch.ratio > 0):
            raise ArgumentError("compressed.ratio", branch.ratio, "an integer above 0")
        return
    check_flat("compressed.kv", branch.kv)
    check_tensor("compressed.indices", branch.indices, torch.int32, 3, "[B, T, K]", q)
    check_shape("compressed.indices", branch.indices, (batch, tokens, branch.indices.shape[2]), "[B, T, K]")
    check_flat("compressed.indices", branch.indices)
    if branch.lens is not None:
        check_tensor("compressed.lens", branch.lens, torch.int32, 2, "[B, T]", q)
        check_shape("compressed.lens", branch.lens, (batch, tokens), "[B, T]")
        check_flat("compressed.lens", branch.lens)


def check_values(keys: int, swa_lens: torch.Tensor | None, branch: AllBlocks | TopkBlocks | None) -> None:
    """Reject lengths and indices that the kernel would clamp or skip. On a GPU this synchronizes with the device."""
    ranges: list[tuple[str, torch.Tensor | None, int, int]] = [("swa_lens", swa_lens, 0, keys)]
    if isinstance(branch, AllBlocks):
        most = (branch.kv.shape[1] + 1) * branch.ratio - 1
        ranges.append(("compressed.seq_lens", branch.seq_lens, 0, most))
    if isinstance(branch, TopkBlocks):
        ranges.append(("compressed.indices", branch.indices, -1, branch.kv.shape[1] - 1))
        ranges.append(("compressed.lens", branch.lens, 0, branch.indices.shape[2]))
    for name, tensor, least, most in ranges:
        if tensor is not None:
            check_range(name, tensor, least, most)


def check_range(name: str, tensor: torch.Tensor, least: int, most: int) -> None:
    """Reject a tensor with a value outside a range. On a GPU this synchronizes with the device."""
    for bad in tensor[(tensor < least) | (tensor > most)][:1].tolist():
        raise ArgumentError(name, bad, f"{least} to {most}")


def is_emulated() -> bool:
    """Return whether this is inside emulator.emulate()."""
    emulator: Any = sys.modules.get("emulator") or sys.modules.get("ptx_emulator")
    return emulator is not None and bool(emulator.is_entered())


def check_device(device: torch.device, chip: Any) -> None:
    """Reject a device without a GPU, and one that does not run code for a chip; the CPU may emulate a GPU."""
    if device.type != "cuda" and not (device.type == "cpu" and is_emulated()):
        raise ArgumentError("q.device", device, "a CUDA device, or the CPU inside emulator.emulate()")
    if device.type == "cuda" and not chip.runs_on(found := torch.cuda.get_device_capability(device)):
        seen = f"{device}, of compute capability {found[0]}.{found[1]}"
        raise ArgumentError("q.device", seen, f"a GPU that runs {chip.arch}, which CUTE_DSL_ARCH names; or unset that")


def check_sink(q: torch.Tensor, sink: torch.Tensor | None) -> None:
    """Check dtype and shape of the sink."""
    if sink is not None:
        check_tensor("sink", sink, torch.float32, 1, "[H]", q)
        check_shape("sink", sink, q.shape[2:3], "[H]")


def check_outputs(out: Attention, q: torch.Tensor, partials: bool) -> None:
    """Check dtypes, shapes and layouts of the caller's buffers."""
    if not isinstance(out, Attention):
        raise ArgumentError("out", type(out).__name__, "kernel.Attention(o, lse) or None")
    expected = {"o": (torch.bfloat16, q.shape), "lse": (torch.float32, q.shape[:3])}
    if partials:
        expected |= {"u": (torch.float32, q.shape), "m": (torch.float32, q.shape[:3])}
    for name in ("o", "lse", "u", "m"):
        tensor = getattr(out, name)
        if name not in expected:
            if tensor is not None:
                raise ArgumentError(f"out.{name}", "a tensor", "None when partials=False")
            continue
        dtype, shape = expected[name]
        check_tensor(f"out.{name}", tensor, dtype, len(shape), str(tuple(shape)), q)
        if tensor.shape != shape:
            raise ArgumentError(f"out.{name}.shape", tuple(tensor.shape), str(tuple(shape)))
        check_packs(f"out.{name}", tensor)
        if len(shape) == 4:
            check_alignment(f"out.{name}", tensor)


def check_outputs_flat(q: torch.Tensor, out: Attention) -> None:
    """Check that batch and tokens of queries and results have one common stride: top-k indices need it."""
    for name, tensor in (("q", q), ("out.o", out.o), ("out.u", out.u), ("out.lse", out.lse), ("out.m", out.m)):
        if tensor is not None:
            check_flat(name, tensor)


def check_tensor(name: str, tensor: Any, dtype: torch.dtype, rank: int, form: str, like: torch.Tensor) -> None:
    """Check type, rank, dtype, device, that no gradient is required, and that the last stride is 1."""
    check_rank(name, tensor, (rank,), form)
    if tensor.dtype != dtype:
        raise ArgumentError(f"{name}.dtype", tensor.dtype, str(dtype))
    if tensor.device != like.device:
        raise ArgumentError(f"{name}.device", tensor.device, f"q's device, {like.device}")
    if tensor.requires_grad and torch.is_grad_enabled():
        raise ArgumentError(f"{name}.requires_grad", True, "False, or a call under torch.no_grad(): no backward pass")
    if tensor.numel() == 0:
        return
    if tensor.shape[-1] > 1 and tensor.stride(-1) != 1:
        raise ArgumentError(f"{name}.stride(-1)", tensor.stride(-1), "1")
    if not traced(tensor) and (rest := tensor.data_ptr() % (size := tensor.element_size())):
        raise ArgumentError(f"{name}.data_ptr() % {size}", rest, "0")


def check_rank(name: str, tensor: Any, ranks: Sequence[int], form: str) -> None:
    """Check that an argument is a tensor with one of some numbers of dimensions; form: its shape in letters."""
    if not isinstance(tensor, torch.Tensor):
        raise ArgumentError(name, type(tensor).__name__, f"a torch.Tensor {form}")
    if tensor.dim() not in ranks:
        raise ArgumentError(f"{name}.shape", tuple(tensor.shape), f"rank {' or '.join(map(str, ranks))}, {form}")


def check_shape(name: str, tensor: torch.Tensor, shape: Sequence[int], form: str) -> None:
    """Check a tensor's shape; form: the shape in letters."""
    if tuple(tensor.shape) != tuple(shape):
        raise ArgumentError(f"{name}.shape", tuple(tensor.shape), f"{form} = {tuple(shape)}")


def check_flat(name: str, tensor: torch.Tensor) -> None:
    """Check that the first two dimensions have one common stride."""
    outer, inner = tensor.shape[:2]
    if outer > 1 and inner > 0 and tensor.stride(0) != inner * tensor.stride(1):
        raise ArgumentError(f"{name}.stride(0)", tensor.stride(0), f"shape[1] * stride(1) = {inner * tensor.stride(1)}")


def check_alignment(name: str, tensor: torch.Tensor) -> None:
    """Check the requirements of a tensor map: address and strides in multiples of 16 bytes."""
    if tensor.data_ptr() % TMA_ALIGN_BYTES:
        raise ArgumentError(f"{name}.data_ptr() % {TMA_ALIGN_BYTES}", tensor.data_ptr() % TMA_ALIGN_BYTES, "0")
    unit = TMA_ALIGN_BYTES // tensor.element_size()
    for i, (size, stride) in enumerate(zip(tensor.shape[:-1], tensor.stride()[:-1], strict=True)):
        if size > 1 and (stride % unit or stride <= 0):
            raise ArgumentError(f"{name}.stride({i})", stride, f"a positive multiple of {unit}")


def check_disjoint(name: str, tensor: torch.Tensor) -> None:
    """Check that no two elements of a result share memory, as those of an expanded tensor do."""
    span = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1 and stride < span:
            raise ArgumentError(f"{name}.stride()", tensor.stride(), "strides with which no elements overlap")
        span += (size - 1) * stride


def check_packs(name: str, tensor: torch.Tensor) -> None:
    """Check that tokens and heads have one common stride."""
    tokens, heads = tensor.shape[1:3]
    if tokens > 1 and heads > 0 and tensor.stride(1) != heads * tensor.stride(2):
        raise ArgumentError(f"{name}.stride(1)", tensor.stride(1), f"H * stride(2) = {heads * tensor.stride(2)}")
