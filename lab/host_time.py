"""`python -m lab.host_time`: microseconds of the host for a call of each kind, with and without buffers for results.

On a GPU, 64 calls are enqueued while it is busy with other work, so that none of them waits for it; calls of torch's
scaled_dot_product_attention and, if it is installed, of FlashAttention-4 on tensors of the same sizes stand in the same
table. Each figure is the median of some rounds. The other columns are the time from a call to the end of its kernels
with an idle GPU before it, and the same of a replay of the call in a CUDA graph.

Without a GPU the compiled function is replaced by one that does nothing, which leaves checks, plan, views and
allocations. torch's attention on a CPU computes its result, so the table there has none of torch: the column `empty`,
a call of torch.empty, says how fast the machine is.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import torch
from torch.nn import functional

CALLS = 64  # enqueued in a round
ROUNDS = 9
WAIT_CYCLES = 200_000_000  # of the GPU while a round is enqueued, 0.1 s
PEERS = "call", "SDPA", "FA-4"  # columns
Call = Callable[[], object]


def main() -> int:
    """Print the table; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m lab.host_time", description=__doc__)
    parser.add_argument("--only", default="", metavar="WORD", help="rows whose name contains it")
    args = parser.parse_args()
    gpu = torch.cuda.is_available()
    print(f"host microseconds a call, {CALLS} calls enqueued, on {where(gpu)}")
    if gpu:
        titles = (f"{title:>{len(PEERS) * 8}}" for title in ("host", "idle GPU", "in a graph"))
        print(f"{'':44}{''.join(titles)}")
        print(f"{'':44}{''.join(f'{name:>8}' for name in PEERS) * 3}")
        for name, call, peers in rows("cuda"):
            if args.only in name:
                print(f"{name:44}{measured(call, peers)}", flush=True)
        return 0
    without_device()
    print(f"{'':44} {'call':>9} {'empty':>11}   the compiled function is replaced")
    for name, call, _ in rows("cpu"):
        if args.only in name:
            empty = enqueued(lambda: torch.empty((1, 128, 8, 128), dtype=torch.bfloat16))
            print(f"{name:44} {enqueued(call):9.1f} {empty:11.2f}", flush=True)
    return 0


def where(gpu: bool) -> str:
    """Return the name of the device."""
    return torch.cuda.get_device_name() if gpu else "the CPU"


def without_device() -> None:
    """Make plans launch nothing, on tensors of the CPU."""
    from kernel import plan

    replaced: Any = plan
    replaced.compile = lambda config: SimpleNamespace(function=lambda operands, arguments: None)
    replaced.check_device = lambda device, major: None
    torch.set_num_threads(1)


def measured(call: Call, peers: dict[str, Call]) -> str:
    """Return the cells of a row on a GPU."""
    calls = {"call": call, **peers}
    ways = (enqueued, end_to_end, lambda each: end_to_end(in_graph(each)))
    found = (way(calls[name]) if name in calls else None for way in ways for name in PEERS)
    return "".join(f"{'-' if value is None else format(value, '.1f'):>8}" for value in found)


def enqueued(call: Call) -> float:
    """Return the host's microseconds a call, of CALLS calls that do not wait for the GPU."""
    call()
    found = []
    for _ in range(ROUNDS):
        if torch.cuda.is_available():
            torch.cuda.synchronize()
            torch.cuda._sleep(WAIT_CYCLES)
        started = time.perf_counter()
        for _ in range(CALLS):
            call()
        found.append((time.perf_counter() - started) / CALLS * 1e6)
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        return statistics.median(found)
    return min(found)  # other programs run on the processor


def end_to_end(call: Call) -> float:
    """Return microseconds from a call to the end of its kernels, with an idle GPU before it."""
    found = []
    for _ in range(CALLS):
        torch.cuda.synchronize()
        started = time.perf_counter()
        call()
        torch.cuda.synchronize()
        found.append((time.perf_counter() - started) * 1e6)
    return statistics.median(found)


def in_graph(call: Call) -> Call:
    """Return the replay of a graph that captured a call."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def rows(device: str) -> Iterator[tuple[str, Call, dict[str, Call]]]:
    """Yield name, call and peers' calls of each row of the table."""
    yield from dense("fmha, 1 x 128 tokens, 8 heads, hd 128", device, (1, 128, 8, 128), 128)
    yield from dense("fmha, decode of 4, 1,024 keys, hd 128", device, (4, 1, 8, 128), 1024)
    yield from dense("fmha, decode of 2, 640 keys, hd 512", device, (2, 1, 64, 512), 640)
    yield from layers(device)
    yield from served("64 heads, b 64, FP8 V4", device, (64, 1, 64, 512), 584)
    yield from served("128 heads, b 64, V3.2", device, (64, 1, 128, 576), 656)
    yield from prefill(device)


def dense(name: str, device: str, shape: tuple[int, ...], keys: int) -> Iterator[tuple[str, Call, dict[str, Call]]]:
    """Yield attention over one key head, with and without buffers, and attention of as many heads and keys."""
    import kernel

    q = bf16(device, *shape)
    k, v = (bf16(device, shape[0], keys, shape[3]) for _ in range(2))
    out = kernel.Attention(torch.empty_like(q), torch.empty(shape[:3], device=device))
    attention: Any = functional.scaled_dot_product_attention
    by_head = q.transpose(1, 2)
    shared = [each[:, None].expand(shape[0], shape[2], keys, shape[3]) for each in (k, v)]
    peers: dict[str, Call] = {"SDPA": lambda: attention(by_head, *shared)}
    if device == "cuda" and shape[3] <= 256 and (flash_attention_4 := peer()) is not None:
        peers["FA-4"] = lambda: flash_attention_4(q, k[:, :, None], v[:, :, None])
    yield name, lambda: kernel.fmha(q, k, v, partials=False), peers
    yield f"{name}, out=", lambda: kernel.fmha(q, k, v, partials=False, out=out), peers


def peer() -> Callable[..., object] | None:
    """Return FlashAttention-4's call, None if it is not installed."""
    try:
        from flash_attn.cute import flash_attn_func
    except ImportError:
        return None
    return flash_attn_func  # type: ignore[no-any-return]


def layers(device: str) -> Iterator[tuple[str, Call, dict[str, Call]]]:
    """Yield decode of a layer with compressed keys (HCA)."""
    from kernel import dsv4

    q, window, compressed = bf16(device, 4, 1, 64, 512), bf16(device, 4, 256, 512), bf16(device, 4, 32, 512)
    lens = torch.full((4,), 256, dtype=torch.int32, device=device)
    sink = torch.zeros(64, device=device)
    options: dict[str, Any] = {"swa_lens": lens, "cmp_kv": compressed, "seq_lens": lens, "compress_ratio": 128}
    yield "dsv4, HCA, decode of 4, 64 heads", lambda: dsv4.attention(q, window, attn_sink=sink, **options), {}
    yield "dsv4, window alone, no lengths", lambda: dsv4.attention(q, window), {}


def served(name: str, device: str, shape: tuple[int, ...], size: int) -> Iterator[tuple[str, Call, dict[str, Call]]]:
    """Yield decode over caches of bytes: two caches of V4, one of V3.2; directly and by FlashMLA's call."""
    import flash_mla
    from kernel import Attention, serving

    batch, tokens, heads, _ = shape
    q, sink = bf16(device, *shape), torch.zeros(heads, device=device)
    lists = (128, 512) if size == 584 else (2048,)
    pages = [torch.zeros(64, 64, 1, size, dtype=torch.uint8, device=device) for _ in lists]
    indices = [torch.zeros(batch, tokens, each, dtype=torch.int32, device=device) for each in lists]
    lens = [torch.full((batch,), each, dtype=torch.int32, device=device) for each in lists]
    caches = [serving.IndexedCache(*each) for each in zip(pages, indices, lens, strict=True)]
    o = bf16(device, *shape[:3], 512)
    out = Attention(o, torch.empty(shape[:3], device=device))
    yield f"serving, {name}", lambda: serving.attention(q, *caches, sink=sink), {}
    yield f"serving, {name}, out=", lambda: serving.attention(q, *caches, sink=sink, out=out), {}
    schedule, _ = flash_mla.get_mla_metadata()
    options: dict[str, Any] = {"is_fp8_kvcache": True, "indices": indices[0], "topk_length": lens[0]}
    if len(lists) > 1:
        options |= {"extra_k_cache": pages[1], "extra_indices_in_kvcache": indices[1], "extra_topk_length": lens[1]}
    options |= {"attn_sink": sink}

    def decode(**more: Any) -> object:
        return flash_mla.flash_mla_with_kvcache(q, pages[0], None, None, 512, schedule, **options, **more)

    yield f"flash_mla decode, {name}", decode, {}
    yield f"flash_mla decode, {name}, out=", lambda: decode(out=o), {}


def prefill(device: str) -> Iterator[tuple[str, Call, dict[str, Call]]]:
    """Yield prefill of 128 tokens over a flat tensor of keys, directly and by FlashMLA's call."""
    import flash_mla
    from kernel import serving

    q, kv = bf16(device, 128, 64, 512), bf16(device, 4096, 1, 512)
    indices = torch.zeros(128, 1, 512, dtype=torch.int32, device=device)
    flat, listed, o = kv[:, 0], indices[:, 0], torch.empty_like(q)
    yield "sparse_attention, 128 tokens, 64 heads", lambda: serving.sparse_attention(q, flat, listed), {}
    yield "flash_mla prefill, 128 tokens, 64 heads", lambda: flash_mla.flash_mla_sparse_fwd(q, kv, indices, 0.04), {}
    yield "the same, out=", lambda: flash_mla.flash_mla_sparse_fwd(q, kv, indices, 0.04, out=o), {}


def bf16(device: str, *shape: int) -> torch.Tensor:
    """Return zeros."""
    return torch.zeros(shape, dtype=torch.bfloat16, device=device)


if __name__ == "__main__":
    sys.exit(main())
