"""Drawings of where logits and P are stored, from the traced layouts: `python -m lab.layout D1.3`.

There are four views: the columns of tensor memory, the thread that loads each logit, P in shared memory as the softmax
warps store it, and P as the descriptor of the second product reads it. The layouts are evaluated by tensor-layouts,
independently of CuTe.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from tensor_layouts import Layout, Swizzle

from emulator.progress import doing, show
from harness.judge import arguments
from harness.paths import ROOT
from kernel.compiled import CompiledFmha, compile
from kernel.hardware import BF16_BYTES, WARP
from kernel.sm100.budget import drawing, tensor_memory
from kernel.sm100.config import FmhaConfig
from kernel.sm100.hardware import TMEM_COLS, TMEM_LANES

SWIZZLE = Swizzle(3, 4, 3)  # on byte addresses: the 128-byte swizzle
MMA_K = 16
SBO = 1024  # bytes between groups of eight rows; bits 32-45 of the descriptor have it in units of 16 bytes
CHUNK = 16  # bytes that the swizzle moves together
SHOWN_ROWS, SHOWN_KEYS = 16, 64  # the part of P in the picture


@dataclass(frozen=True)
class Traced:
    """A compiled configuration and its layouts by name."""

    compiled: CompiledFmha
    lines: dict[str, str]

    @staticmethod
    def of(compiled: CompiledFmha) -> Traced:
        return Traced(compiled, dict(re.split(r"  +", line, maxsplit=1) for line in compiled.layouts))

    def layout(self, name: str) -> Any:
        """Return the affine part of a layout, without the coordinates of its strides."""
        shape, stride = self.lines[name].split(" o ")[-1].split(":")
        return Layout(ast.literal_eval(shape), ast.literal_eval(re.sub(r"@\d", "", stride)))

    @property
    def tile(self) -> tuple[int, int]:
        """The rows and keys of a tile of logits."""
        return self.config.block_m, self.config.block_n

    @property
    def config(self) -> FmhaConfig:
        """The configuration. Raises ValueError if it is not one for sm_100a, whose tensor memory is drawn."""
        if not isinstance(self.compiled.config, FmhaConfig):
            raise ValueError(f"{self.compiled.config.name} has no tensor memory; layouts are drawn for sm_100a")
        return self.compiled.config


def logits_at(traced: Traced) -> np.ndarray:
    """Return the tensor-memory address (lane << 16 | column) of S[row, key], as an array [rows, keys]."""
    layout, (rows, keys) = traced.layout("tStS"), traced.tile
    return np.array([[layout((i, j), 0, 0) for j in range(keys)] for i in range(rows)])


def loaded_by(traced: Traced) -> np.ndarray:
    """Return the softmax thread that loads S[row, key], as an array [rows, keys]."""
    rows, keys = traced.tile
    config = traced.config
    of_thread = sorted(traced.layout("tLcS")(i) for i in range(keys // config.variant.threads_per_row))
    assert of_thread == list(range(len(of_thread))), f"thread 0 loads keys {of_thread}"
    row, key = np.arange(rows)[:, None], np.arange(keys)[None, :]
    rows_of_warp = rows // len(config.roles.softmax)
    return row // rows_of_warp * WARP + row % rows_of_warp + key // len(of_thread) * rows_of_warp


def stored_at(traced: Traced) -> np.ndarray:
    """Return the byte offset in sP at which the softmax warps store P[row, key], as an array [rows, keys]."""
    by_rows, (rows, keys) = traced.layout("sP_rows"), traced.tile
    assert traced.lines["sP"].startswith("S<3,4,3>"), "the swizzle belongs to sP, once"
    return np.array([[SWIZZLE(BF16_BYTES * by_rows(i, j)) for j in range(keys)] for i in range(rows)])


def read_at(traced: Traced) -> np.ndarray:
    """Return the byte offset at which the tensor core reads P[row, key]: descriptor of the k-step, then swizzle.

    The formula of the PTX manual, 9.7.16.5, for K-major operands.
    """
    steps, (m, n) = traced.layout("tOrP"), traced.tile
    rows, keys = np.arange(m)[:, None], np.arange(n)[None, :]
    start = CHUNK * np.array([steps(0, 0, step, 0) for step in range(n // MMA_K)])[keys // MMA_K]
    linear = start + rows % 8 * 128 + rows // 8 * SBO + keys % MMA_K * BF16_BYTES
    swizzled: np.ndarray = linear ^ (linear >> 7 & 7) << 4
    return swizzled


def text(traced: Traced) -> Iterator[str]:
    """Yield the contents of the picture as text."""
    config, at, threads = traced.config, logits_at(traced), loaded_by(traced)
    yield config.name
    yield f"  tensor memory   {drawing(config)}"
    yield f"  accumulator     tStS {traced.lines['tStS']}"
    for row in (0, 1, config.block_m - 1):
        lanes, columns = at[row] >> 16, at[row] & 0xFFFF
        yield f"                  S[{row}, :] in lane {lanes.min()}, columns {columns.min()} to {columns.max()}"
    yield f"  load partition  tLtS {traced.lines['tLtS']}, tLcS {traced.lines['tLcS']}"
    for row in (0, 1, config.block_m - 1):
        yield f"                  S[{row}, :] by threads {', '.join(map(str, np.unique(threads[row])))}"
    if config.p_path == "tmem":
        start = config.tmem.p_start
        yield f"  P               in tensor memory from column {start}: tOrP {traced.lines['tOrP']}, in bf16"
        return
    stored, read = stored_at(traced), read_at(traced)
    yield f"  sP              {traced.lines['sP']}"
    yield f"  descriptor      tOrP {traced.lines['tOrP']}, in 16 bytes; SBO {SBO}, 128-byte swizzle"
    yield f"                  reads {np.count_nonzero(stored == read)} of {stored.size} elements where they were stored"
    yield "                  16-byte chunk of its 128 bytes in which keys 0-7, 8-15, ... of a row lie:"
    for row in range(8):
        yield f"                  row {row}: {' '.join(map(str, chunks(stored)[row, ::8]))}"


def chunks(address: np.ndarray) -> np.ndarray:
    """Return the 16-byte chunk of a swizzled row of 128 bytes for each address, for the keys that are shown."""
    shown: np.ndarray = (address // CHUNK % 8)[:SHOWN_ROWS, :SHOWN_KEYS]
    return shown


def picture(traced: Traced) -> Figure:
    """Draw the views side by side; those of shared memory only if P is stored there."""
    in_smem = traced.config.p_path == "smem"
    figure = Figure(figsize=(13, 9 if in_smem else 4.5), dpi=100, layout="constrained")
    figure.suptitle(traced.config.name)
    axes = figure.subplots(2 if in_smem else 1, 2, squeeze=False)
    _draw_tensor_memory(axes[0, 0], traced)
    image = axes[0, 1].imshow(loaded_by(traced), aspect="auto", interpolation="nearest", cmap="turbo")
    figure.colorbar(image, ax=axes[0, 1], label="thread")
    axes[0, 1].set(title="load partition: the thread that loads S[row, key]", xlabel="key", ylabel="row")
    if in_smem:
        stored, read = stored_at(traced), read_at(traced)
        same = "equal" if np.array_equal(stored, read) else f"{np.count_nonzero(stored != read)} elements apart"
        _draw_chunks(axes[1, 0], stored, "sP as the softmax warps store it: 16-byte chunk of 128")
        _draw_chunks(axes[1, 1], read, f"sP as the descriptor reads it: {same}")
    return figure


def _draw_tensor_memory(axes: Any, traced: Traced) -> None:
    """Draw lanes by columns: the regions with their names, and the accumulator's addresses shaded."""
    cells = np.full((TMEM_LANES, TMEM_COLS), np.nan)
    at = logits_at(traced)
    cells[at >> 16, at & 0xFFFF] = np.broadcast_to(np.arange(at.shape[0])[:, None], at.shape)
    axes.imshow(cells, aspect="auto", interpolation="nearest", cmap="viridis")
    for region in tensor_memory(traced.config):
        axes.axvspan(region.start, region.start + region.size, fill=False, color="black", linewidth=0.8)
        axes.text(
            region.start + region.size / 2, TMEM_LANES / 2, region.name, ha="center", va="center", color="crimson"
        )
    axes.set(title="tensor memory; S0's address of each row of logits", xlabel="column", ylabel="lane")


def _draw_chunks(axes: Any, address: np.ndarray, title: str) -> None:
    shown = chunks(address)
    axes.imshow(shown, aspect="auto", interpolation="nearest", cmap="tab10")
    for row in range(shown.shape[0]):
        for key in range(0, shown.shape[1], 8):
            axes.text(key + 3.5, row, str(shown[row, key]), ha="center", va="center", color="white")
    axes.set(title=title, xlabel="key", ylabel="row")


def main() -> None:
    """Print the layouts of a milestone's configurations, and save a picture of each."""
    parser = argparse.ArgumentParser(prog="python -m lab.layout", description=__doc__)
    parser.add_argument("milestone", type=arguments.milestone, help="D1.4, for example; `make milestones` lists them")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="folder for the drawings (default: results/layout)")
    args = parser.parse_args()
    show()
    folder = args.out or ROOT / "results" / "layout"
    folder.mkdir(parents=True, exist_ok=True)
    for config in dict.fromkeys(case.config for case in args.milestone.load().CASES):
        with doing(f"compiling {config.name}"):
            traced = Traced.of(compile(config))
        print("\n".join(text(traced)))
        path = folder / f"{config.name}.png"
        picture(traced).savefig(path)
        print(f"  picture         {path}", flush=True)


if __name__ == "__main__":
    main()
