"""FlashMLA's prefill and decode, and this kernel, timed on a Hopper GPU.

`python -m lab.flashmla_gpu LIBRARY` prints the times of both. `--build FLASHMLA CUTLASS` compiles LIBRARY
instead, from checkouts of deepseek-ai/FlashMLA and NVIDIA/cutlass, by the nvcc of CUDA_HOME or PATH; that needs no GPU.
`--write FILE` writes the times as CSV. Both kernels get caches of the same layout and lists of as many keys; FlashMLA's
keys are its own. L2 is cold.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from ctypes import c_float, c_int, c_void_p
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harness.tools import tables
from kernel.layouts import QUANTISED

if TYPE_CHECKING:
    import torch

    from stages.shapes import DenseShape, ServedShape, Shape

SOURCE: Final = Path(__file__).with_suffix(".cu")
DECODES: Final = ("model1_persistent_h64", "model1_persistent_h128", "v32_persistent_h64", "v32_persistent_h128")
PREFILL_KINDS: Final = ("k512", "k512_topklen", "k576", "k576_topklen")
UNITS: Final = (
    *(f"sm90/prefill/sparse/instantiations/phase1_{each}.cu" for each in PREFILL_KINDS),
    "sm90/decode/dense/instantiations/bf16.cu",
    *(f"sm90/decode/sparse_fp8/instantiations/{each}.cu" for each in DECODES),
    "smxx/decode/combine/combine.cu",
    "smxx/decode/get_decoding_sched_meta/get_decoding_sched_meta.cu",
)
OPTIONS: Final = (
    *("-std=c++20", "-O3", "-DNDEBUG", "--expt-relaxed-constexpr", "--use_fast_math"),
    *("-gencode=arch=compute_90a,code=sm_90a", "-shared", "-Xcompiler", "-fPIC"),
)
PREFILLS: Final = ("prefill-128h-csa", "prefill-64h-csa")
HEAD: Final = ("problem", "ours us", "us", "tflops", "sm_mhz", "watts")


class Arguments(ctypes.Structure):
    """Arguments of a launch as lab/flashmla_gpu.cu declares them. held: the tensors that they point to."""

    held: Sequence[Any] = ()


class Prefill(Arguments):
    """The arguments of a prefill."""

    _fields_ = [
        *((name, c_int) for name in ("tokens", "heads", "width", "keys", "topk")),
        ("scale", c_float),
        *((name, c_void_p) for name in ("q", "kv", "out", "indices", "max_logits", "lse", "sink", "lengths")),
    ]


class Cache(ctypes.Structure):
    """A cache of a decode step."""

    _fields_ = [(name, c_int) for name in ("pages", "page", "topk")] + [(name, c_void_p) for name in ("kv", "indices")]


class Decode(Arguments):
    """The arguments of a decode step."""

    _fields_ = [
        *((name, c_int) for name in ("batch", "tokens", "heads", "width", "row_bytes", "parts")),
        *((name, c_void_p) for name in ("q", "out", "lse", "lse_parts", "o_parts", "plan", "splits")),
        *(("cache", Cache), ("extra", Cache)),
    ]


class Dense(Arguments):
    """The arguments of a decode step over all keys of a block table's pages."""

    _fields_ = [
        *((name, c_int) for name in ("batch", "tokens", "heads", "pages", "columns", "parts", "causal")),
        *((name, c_void_p) for name in ("q", "kv", "out", "lse", "lse_parts", "o_parts", "table", "lengths")),
        *((name, c_void_p) for name in ("plan", "splits")),
    ]


class Library:
    """FlashMLA's kernels on torch's current stream. `call` raises RuntimeError with CUDA's error code."""

    def __init__(self, path: Path) -> None:
        self.functions = ctypes.CDLL(str(path.resolve()))

    def parts(self, tokens: int, heads: int) -> int:
        """Return the SMs that share the keys of a batch."""
        return int(self.functions.decode_parts(tokens, heads))

    def call(self, name: str, given: Arguments) -> None:
        """Launch `prefill`, `decode`, `dense`, or the plan of one of the latter."""
        import torch

        code = getattr(self.functions, name)(ctypes.byref(given), c_void_p(torch.cuda.current_stream().cuda_stream))
        if code:
            raise RuntimeError(f"FlashMLA's {name} ended with CUDA error {code}")


def build(flashmla: Path, cutlass: Path, nvcc: Path, library: Path) -> None:
    """Compile the library. Raises CalledProcessError."""
    csrc, toolkit = flashmla / "csrc", nvcc.parents[1]
    folders = (csrc, csrc / "kerutils/include", cutlass / "include", toolkit / "include", toolkit / "include/cccl")
    options = *OPTIONS, *(f"-I{folder}" for folder in folders), f"-L{toolkit / 'lib'}"
    subprocess.run([nvcc, *options, "-o", library, SOURCE, *(csrc / unit for unit in UNITS)], check=True)


def sparse_fwd(
    library: Library,
    q: torch.Tensor,
    kv: torch.Tensor,
    indices: torch.Tensor,
    sm_scale: float,
    d_v: int = 512,
    attn_sink: torch.Tensor | None = None,
    topk_length: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Compute `flash_mla_sparse_fwd` of FlashMLA's package by the library's kernel."""
    (out, *statistics), launch = prefill_launch(library, q, kv, indices, sm_scale, attn_sink, topk_length)
    launch()
    return out, statistics[0], statistics[1]


def prefill_launch(
    library: Library, q: torch.Tensor, kv: torch.Tensor, indices: torch.Tensor, scale: float, *features: Any
) -> tuple[list[torch.Tensor], Callable[[], None]]:
    """Return out, max_logits and lse of FlashMLA's sparse prefill, and its launch. features: sink and lengths."""
    import torch

    tokens, heads, width = q.shape
    out = torch.full((tokens, heads, 512), torch.nan, dtype=torch.bfloat16, device=q.device)
    made = [out, *torch.empty(2, tokens, heads, dtype=torch.float32, device=q.device)]
    given = [each if each is None else each.contiguous() for each in (q, kv, indices, *features)]
    held = *given[:2], out, given[2], *made[1:], *given[3:]
    pointers = (None if each is None else each.data_ptr() for each in held)
    arguments = Prefill(tokens, heads, width, len(kv), indices.shape[-1], scale, *pointers)
    arguments.held = held
    return made, partial(library.call, "prefill", arguments)


def prefill(library: Library, shape: Shape) -> tuple[Any, Callable[[], None]]:
    """Return the output and the launch of FlashMLA's sparse prefill with the sizes of a shape."""
    import torch

    keys, topk = 4096, shape.keys + shape.topk
    q = torch.randn(shape.tokens, shape.heads, 512, device="cuda").bfloat16()
    kv = torch.randn(keys, 512, device="cuda").bfloat16()
    listed = torch.rand(shape.tokens, keys, device="cuda").topk(topk).indices.int()
    (out, *_), launch = prefill_launch(library, q, kv, listed, 512**-0.5, None, None)
    return out, launch


def decode(library: Library, shape: ServedShape) -> tuple[Any, Callable[[], None]]:
    """Return the output and the launch of FlashMLA's sparse decode with the sizes and layouts of a shape."""
    import torch

    rows, parts = (shape.tokens, shape.heads), library.parts(shape.tokens, shape.heads)
    row_bytes, count = QUANTISED[shape.layouts[0]].bytes, shape.batch + parts
    q = torch.randn(shape.batch, *rows, shape.qk_dim, device="cuda").bfloat16()
    out = torch.full((shape.batch, *rows, 512), torch.nan, dtype=torch.bfloat16, device="cuda")
    lse, lse_parts = (torch.empty(n, *rows, device="cuda") for n in (shape.batch, count))
    o_parts = torch.empty(count, *rows, 512, device="cuda")
    plan, splits = (torch.empty(n, dtype=torch.int32, device="cuda") for n in (parts * 8, shape.batch + 1))
    held, caches = [q, out, lse, lse_parts, o_parts, plan, splits], [Cache(), Cache()]
    for i, (listed, page) in enumerate(zip(shape.lists, shape.sizes, strict=True)):
        keys = shape.batch * shape.tokens * listed
        pages = -(-keys // page)
        kv = torch.zeros(pages * page * row_bytes, dtype=torch.uint8, device="cuda")
        indices = torch.randperm(keys, device="cuda").int()
        caches[i] = Cache(pages, page, listed, kv.data_ptr(), indices.data_ptr())
        held += [kv, indices]
    sizes = shape.batch, *rows, shape.qk_dim, row_bytes, parts
    given = Decode(*sizes, *(each.data_ptr() for each in held[:7]), *caches)
    given.held = held
    library.call("decode_plan", given)
    return out, partial(library.call, "decode", given)


def dense(library: Library, shape: DenseShape) -> tuple[Any, Callable[[], None]]:
    """Return the output and the launch of FlashMLA's decode over all keys with the sizes of a shape."""
    import torch

    rows = shape.tokens, shape.heads
    parts = library.parts(1, 64 * -(-shape.tokens * shape.heads // 64))
    count = shape.batch + parts
    q, kv, table, lengths = shape.inputs(torch.randn, "cuda")
    out = torch.full((shape.batch, *rows, 512), torch.nan, dtype=torch.bfloat16, device="cuda")
    lse, lse_parts = (torch.empty(n, *rows, device="cuda") for n in (shape.batch, count))
    o_parts = torch.empty(count, *rows, 512, device="cuda")
    plan, splits = (torch.empty(n, dtype=torch.int32, device="cuda") for n in (parts * 8, shape.batch + 1))
    held = q, kv, out, lse, lse_parts, o_parts, table, lengths, plan, splits
    given = Dense(
        shape.batch, *rows, len(kv), table.shape[1], parts, int(shape.tokens > 1), *(each.data_ptr() for each in held)
    )
    given.held = held
    library.call("dense_plan", given)
    return out, partial(library.call, "dense", given)


Work = tuple["Shape | ServedShape | DenseShape", Any, Callable[[], None]]


def works(library: Library, pattern: str = "*") -> Iterator[Work]:
    """Yield each shape that FlashMLA computes and whose name matches, its output there, and the launch."""
    from stages.shapes import DENSE, SERVED, SHAPES

    for shape in SHAPES:
        if shape.name in PREFILLS and fnmatchcase(shape.name, pattern):
            yield shape, *prefill(library, shape)
    for served in SERVED:
        if served.heads >= 64 and served.layouts[0] in ("v4", "v32") and fnmatchcase(served.name, pattern):
            yield served, *decode(library, served)
    for each in DENSE:
        if fnmatchcase(each.name, pattern):
            yield each, *dense(library, each)


def times(library: Library) -> Iterator[tuple[str, ...]]:
    """Yield the row of each problem, as HEAD names its columns.

    Raises RuntimeError if FlashMLA fails or leaves output unwritten.
    """
    import torch

    from harness.judge.gpu_time import measure

    for shape, out, launch in works(library):
        launch()
        if not out.isfinite().all():
            raise RuntimeError(f"FlashMLA's output of {shape.name} is not finite")
        ours, theirs = measure(shape.prepared(torch.randn, "cuda"), cold=True), measure(launch, cold=True)
        values = (
            *(shape.name, f"{1e6 * ours.median:.2f}", f"{1e6 * theirs.median:.2f}"),
            *(f"{1e-12 * shape.flops / theirs.median:.1f}", f"{theirs.sm_mhz:.0f}", f"{theirs.watts:.0f}"),
        )
        print(*values, sep="  ", flush=True)
        yield values


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line that the module's docstring describes. Return 2 if there is no nvcc or no library."""
    parser = argparse.ArgumentParser(prog="python -m lab.flashmla_gpu", description=__doc__)
    parser.add_argument("library", type=Path)
    parser.add_argument("--build", nargs=2, type=Path, metavar=("FLASHMLA", "CUTLASS"))
    parser.add_argument("--write", type=Path, metavar="FILE")
    args = parser.parse_args(arguments)
    if args.build:
        home = os.environ.get("CUDA_HOME")
        found = shutil.which("nvcc", path=str(Path(home, "bin")) if home else None)
        if found is None:
            parser.error("no nvcc in CUDA_HOME or PATH: install a CUDA toolkit, or name the library without --build")
        flashmla, cutlass = args.build
        build(flashmla, cutlass, Path(found), args.library)
        return 0
    if not args.library.is_file():
        parser.error(f"{args.library} is no file: build it with --build FLASHMLA CUTLASS")
    found_times = list(times(Library(args.library)))
    if args.write:
        tables.write(args.write, HEAD, found_times)
    return 0


if __name__ == "__main__":
    sys.exit(main())
