"""The resources of a configuration: tensor memory (drawn), shared memory by buffer, registers, PTX, compile time.

`python -m kernel.budget` prints them for every head dim and memory of P, and for DeepSeek-V4's layers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kernel.compiled import compile
from kernel.config import S_STAGES, SLICE_ROLES, SMEM_BYTES, TMEM_COLS, TWO_Q_TILES, FmhaConfig, Roles
from kernel.cubin import resources

COLS_PER_MARK = 8  # columns of tensor memory per character of the drawing

CONFIGS = (
    *(FmhaConfig(hd, p_path=p_path) for hd in (64, 128, 256) for p_path in ("tmem", "smem")),
    *(FmhaConfig(hd, roles=TWO_Q_TILES) for hd in (64, 128)),
    FmhaConfig(256, mma_ctas=2, roles=Roles(queries=())),
    FmhaConfig(512, p_path="smem", roles=SLICE_ROLES),
    *(
        FmhaConfig(512, "smem", "causal", True, False, compressed, True, mma_ctas=ctas, roles=SLICE_ROLES)
        for ctas in (1, 2)
        for compressed in ("none", "blocks", "topk")
    ),
    FmhaConfig(512, "smem", "causal", True, False, "topk", True, splits=16, roles=SLICE_ROLES),
)


@dataclass(frozen=True)
class Region:
    """A piece of memory: columns of tensor memory, or bytes of shared memory."""

    name: str
    start: int
    size: int


def tensor_memory(config: FmhaConfig) -> tuple[Region, ...]:
    """Return the regions of tensor memory in the order of their columns."""
    s = "S{0} P{0}" if config.p_over_s else "S{0}"
    regions = [Region(s.format(i), i * config.s_cols, config.s_cols) for i in range(S_STAGES)]
    names = ["O"] if config.q_tiles == 1 else ["O0", "O1"]
    regions += [Region(name, config.tmem_o + i * config.o_cols, config.o_cols) for i, name in enumerate(names)]
    if config.p_path == "tmem" and not config.p_over_s:
        regions += [Region(f"P{i}", config.tmem_p + i * config.p_cols, config.p_cols) for i in range(S_STAGES)]
    return tuple(regions)


def shared_memory(config: FmhaConfig) -> tuple[Region, ...]:
    """Return the buffers of shared memory in their order."""
    sizes = {"barriers": config.reserved_bytes, "Q": config.q_bytes}
    rings = ("K", "V") if config.loads_v else ("KV",)
    sizes |= {f"{ring}{i}": config.kv_tile_bytes for ring in rings for i in range(config.depth)}
    sizes |= {name: size for name, size in (("P", config.p_bytes), ("O", config.o_bytes)) if size}
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
    yield f"                 {columns}: {config.tmem_cols} of {TMEM_COLS} columns, {config.tmem_alloc_cols} allocated"
    yield f"  shared memory  {buffers}: {config.smem_bytes} of {SMEM_BYTES} bytes"
    yield f"  registers      {taken.registers} a thread, {taken.stack_bytes} bytes of stack (spills)"
    yield f"  code           {len(compiled.ptx.splitlines())} lines of PTX, compiled in {compiled.compile_s:.1f} s"


if __name__ == "__main__":
    for each in CONFIGS:
        print("\n".join(report(each)), flush=True)
