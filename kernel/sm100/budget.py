"""The resources of a configuration: tensor memory (drawn), shared memory by buffer, registers, PTX, compile time.

`python -m kernel.sm100.budget` prints them for every head dim and memory of P, and for DeepSeek-V4's layers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args

from kernel.compiled import compile
from kernel.cubin import resources
from kernel.hardware import SMEM_BYTES
from kernel.problem import CacheKind, Compressed, PPath
from kernel.sm100.config import FmhaConfig
from kernel.sm100.hardware import TMEM_COLS
from kernel.sm100.memory import S_STAGES
from kernel.sm100.variants import VariantName, variant

COLS_PER_MARK = 8  # columns of tensor memory per character of the drawing

_LAYER: dict[str, Any] = {"p_path": "smem", "mask": "causal", "shared_kv": True, "partials": False, "sink": True}
_LAYER_VARIANTS: tuple[VariantName, ...] = ("one Q tile", "CTA pair at 512")
_SERVED: dict[str, Any] = {"p_path": "smem", "shared_kv": True, "partials": False, "sink": True, "maxima": True}
_V4 = CacheKind("v4", lens=True), CacheKind("v4", lens=True)
_V41 = CacheKind("v41", lens=True), CacheKind("v41_fp4", lens=True)
_CONVERTED: tuple[tuple[VariantName, tuple[CacheKind, ...]], ...] = (
    ("16 heads", (CacheKind("bf16", lens=True),)),
    ("16 heads", _V4),
    ("32 heads", _V4),
    ("64 heads", _V4),
    ("32 heads", _V41),
    ("converting CTA pair", _V4),
    ("converting CTA pair", _V41),
)
CONFIGS = (
    *(FmhaConfig(head_dim=hd, p_path=p_path) for hd in (64, 128, 256) for p_path in get_args(PPath)),
    *(FmhaConfig(head_dim=hd, variant=variant("two Q tiles", hd)) for hd in (64, 128)),
    FmhaConfig(head_dim=256, variant=variant("CTA pair at 256", 256)),
    FmhaConfig(head_dim=512, p_path="smem"),
    *(
        FmhaConfig(head_dim=512, **_LAYER, compressed=compressed, variant=variant(name, 512))
        for name in _LAYER_VARIANTS
        for compressed in get_args(Compressed)
    ),
    FmhaConfig(head_dim=512, **_LAYER, compressed="topk", splits=16),
)
SERVED_CONFIGS = tuple(
    FmhaConfig(head_dim=512, **_SERVED, caches=caches, splits=splits, variant=variant(name, 512))
    for name, caches in _CONVERTED
    for splits in (1, 16)
    if splits in variant(name, 512).splits
)


@dataclass(frozen=True)
class Region:
    """A piece of memory: columns of tensor memory, or bytes of shared memory."""

    name: str
    start: int
    size: int


def tensor_memory(config: FmhaConfig) -> tuple[Region, ...]:
    """Return the regions of tensor memory in the order of their columns."""
    tmem = config.tmem
    s = "S{0} P{0}" if tmem.p_over_s else "S{0}"
    stages = ["S"] if config.variant.swapped else [s.format(i) for i in range(S_STAGES)]
    regions = [Region(name, i * tmem.s_cols, tmem.s_cols) for i, name in enumerate(stages)]
    names = ["O"] if config.q_tiles == 1 else ["O0", "O1"]
    regions += [Region(name, tmem.o_start + i * tmem.o_cols, tmem.o_cols) for i, name in enumerate(names)]
    if config.p_path == "tmem" and not tmem.p_over_s:
        regions += [Region(f"P{i}", tmem.p_start + i * tmem.p_cols, tmem.p_cols) for i in range(S_STAGES)]
    if tmem.a_slices:
        name = "K" if config.variant.swapped else "Q"
        regions.append(Region(name, tmem.o_end, tmem.a_slices * tmem.a_cols))
    return tuple(regions)


def shared_memory(config: FmhaConfig) -> tuple[Region, ...]:
    """Return the buffers of shared memory in their order."""
    sizes = {"barriers": config.smem.reserved_bytes, "Q": config.smem.q_bytes}
    rings = ("K", "V") if config.loads_v else ("KV",)
    sizes |= {f"{ring}{i}": config.smem.kv_tile_bytes for ring in rings for i in range(config.smem.depth)}
    others = (("rope", config.smem.rope_bytes), ("P", config.smem.p_bytes), ("O", config.smem.o_bytes))
    sizes |= {name: size for name, size in others if size}
    regions, start = [], 0
    for name, size in sizes.items():
        regions.append(Region(name, start, size))
        start += size
    return tuple(regions)


def drawing(config: FmhaConfig) -> str:
    """Draw the columns of tensor memory, eight per character: names where regions begin, dots where free."""
    marks = ["."] * (TMEM_COLS // COLS_PER_MARK)
    for region in tensor_memory(config):
        first = region.start // COLS_PER_MARK
        count = region.size // COLS_PER_MARK
        marks[first : first + count] = list(f"|{region.name}".ljust(count, " ")[:count])
    return "".join(marks) + "|"


def report(config: FmhaConfig) -> Iterator[str]:
    """Yield the lines of one configuration, which this compiles."""
    compiled = compile(config)
    taken = resources(compiled.cubin)
    columns = ", ".join(f"{region.name} {region.size}" for region in tensor_memory(config))
    buffers = ", ".join(f"{region.name} {region.size}" for region in shared_memory(config))
    yield config.name
    yield f"  tensor memory  {drawing(config)}"
    yield f"                 {columns}: {config.tmem.cols} of {TMEM_COLS} columns, {config.tmem.alloc_cols} allocated"
    yield f"  shared memory  {buffers}: {config.smem.total_bytes} of {SMEM_BYTES} bytes"
    yield f"  registers      {taken.registers} a thread, {taken.stack_bytes} bytes of stack (spills)"
    yield f"  code           {len(compiled.ptx.splitlines())} lines of PTX, compiled in {compiled.compile_s:.1f} s"


if __name__ == "__main__":
    for each in CONFIGS:
        print("\n".join(report(each)), flush=True)
