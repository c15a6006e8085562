"""`python -m lab.flashmla_prefill FLASHMLA CUTLASS [--write]`: predict FlashMLA's sparse prefill, and compare claims.

FLASHMLA and CUTLASS are checkouts of deepseek-ai/FlashMLA and NVIDIA/cutlass. nvcc is that of CUDA_HOME or PATH; it is
in PyPI's nvidia-cuda-nvcc, -crt, -cccl and -runtime. Nothing is measured. `--write` writes the predictions to
lab/data/flashmla_prefill.csv, and FlashMLA's rows of lab/data/peers.csv.
"""

from __future__ import annotations

import argparse
import csv
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lab import nvcc, peers
from lab.pages import rows

SOURCE: Final = Path(__file__).with_suffix(".cu")
FIGURES: Final = Path(__file__).parent / "data" / "flashmla_prefill.csv"
HEAD: Final = ("shape", "chip", "claimed TFLOP/s", "claim's source", "TFLOP/s", "with power", "cycles", "bound by")
OPTIONS: Final = ("-std=c++20", "-O3", "-DNDEBUG", "-lineinfo", "--expt-relaxed-constexpr", "--use_fast_math")


@dataclass(frozen=True)
class Shape:
    """One launch of FlashMLA's sparse prefill. width: columns of q; values have 512.

    folder: of the kernel in FlashMLA's csrc. unit: the file that instantiates it. call: its function. claimed: the
    TFLOP/s that FlashMLA's authors claim for it.
    """

    chip: str
    heads: int
    width: int
    keys: int
    topk: int
    folder: str
    unit: str
    call: str
    claimed: int | None = None
    source: str = ""
    tokens: int = 4096

    def __str__(self) -> str:
        return f"{self.heads} heads of {self.width}, {self.topk:,} sparse keys"

    @property
    def flops(self) -> float:
        """The operations of both matrix products."""
        return 2.0 * self.tokens * self.topk * self.heads * (self.width + 512)


SM100: Final = "sm100/prefill/sparse"
SHAPES: Final = (
    Shape(
        "b200", 128, 576, 8192, 2048, f"{SM100}/fwd/head128", "phase1_k576",
        "sm100::fwd::head128::run_fwd_phase1_kernel<576>", 1450, "its docs, B200",
    ),
    Shape(
        "h100", 128, 576, 8192, 2048, "sm90/prefill/sparse", "phase1_k576",
        "sm90::fwd::run_fwd_phase1_kernel<576, false>", 640, "its docs, H800",
    ),
    Shape(
        "b200", 128, 512, 4096, 1152, f"{SM100}/fwd_for_small_topk/head128", "phase1_prefill_k512",
        "sm100::fwd_for_small_topk::head128::run_fwd_for_small_topk_phase1_kernel<SparseAttnFwdMode::Prefill, 512>",
    ),
    Shape(
        "b200", 64, 512, 4096, 640, f"{SM100}/fwd/head64", "phase1_k512",
        "sm100::fwd::head64::run_fwd_phase1_kernel<512>",
    ),
)  # fmt: skip
TARGETS: Final = {"b200": "100a", "h100": "90a"}


def compile_program(shape: Shape, flashmla: Path, cutlass: Path, compiler: Path, program: Path) -> None:
    """Compile the kernel of a shape and the program that launches it. Raises CalledProcessError."""
    csrc, toolkit, target = flashmla / "csrc", compiler.parents[1], TARGETS[shape.chip]
    folders = (csrc, csrc / "kerutils/include", cutlass / "include", toolkit / "include", toolkit / "include/cccl")
    sizes = {"TOKENS": shape.tokens, "HEADS": shape.heads, "WIDTH": shape.width, "KEYS": shape.keys, "TOPK": shape.topk}
    names = {"PHASE1": f'"{shape.folder}/phase1.h"', "CALL": shape.call}
    header = program.with_suffix(".h")
    main = program.with_suffix(".cu")
    header.write_text("".join(f"#define {name} {value}\n" for name, value in (sizes | names).items()))
    main.write_text(f'#include "{header}"\n#include "{SOURCE}"\n')
    command: list[str | Path] = [
        *(compiler, *OPTIONS, f"-gencode=arch=compute_{target},code=compute_{target}"),
        *(f"-I{folder}" for folder in folders),
        *(f"-L{toolkit / 'lib'}", "-o", program),
        *(main, csrc / shape.folder / f"instantiations/{shape.unit}.cu"),
    ]
    subprocess.run(command, check=True)


def row(shape: Shape, prediction: dict[str, Any]) -> tuple[str, ...]:
    """Return the line of the table, as HEAD names its columns."""
    conditions = (prediction["fastest"], prediction)
    rates = (f"{1e-12 * shape.flops / each['seconds']:,.0f}" for each in conditions)
    claimed = "" if shape.claimed is None else f"{shape.claimed:,}"
    cycles, bound = f"{prediction['cycles']:,.0f}", prediction["bound"]
    return str(shape), prediction["chip"], claimed, shape.source, *rates, cycles, bound


def beside_ours(shape: Shape, prediction: dict[str, Any]) -> tuple[str, ...]:
    """Return a row of peers.csv. Our cycles and rate are those of FlashAttention-4's row of the problem."""
    ours = next(each for each in rows(peers.FIGURES) if each["problem"] == str(shape))
    rate = 1e-12 * shape.flops / prediction["seconds"]
    ratio = float(ours["our_tflops"].replace(",", "")) / rate
    return (
        *(str(shape), ours["our_cycles"], ours["our_tflops"]),
        *(f"{prediction['cycles']:,.0f}", f"{rate:,.0f}", f"{ratio:.2f}"),
    )


def main() -> int:
    """Predict every shape, print the table, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m lab.flashmla_prefill", description=__doc__)
    parser.add_argument("flashmla", type=Path)
    parser.add_argument("cutlass", type=Path)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    for folder in (given.flashmla / "csrc" / SM100, given.cutlass / "include" / "cutlass"):
        if not folder.is_dir():
            parser.error(f"there is no folder {folder}: name checkouts of deepseek-ai/FlashMLA and NVIDIA/cutlass")
    compiler = nvcc.compiler()
    if compiler is None:
        parser.error(nvcc.MISSING)
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for number, shape in enumerate(SHAPES):
            program = Path(folder) / f"prefill{number}"
            compile_program(shape, given.flashmla.resolve(), given.cutlass.resolve(), compiler, program)
            (prediction,) = nvcc.predicted(program, shape.chip)
            found.append((shape, prediction))
            print(*row(*found[-1]), sep="  ", flush=True)
    if given.write:
        write([row(*each) for each in found])
        ours = [beside_ours(*each) for each in found if each[0].width == 512]
        peers.write("FlashMLA", ours)
    return 0


def write(table: Sequence[tuple[str, ...]]) -> None:
    """Write lab/data/flashmla_prefill.csv."""
    with FIGURES.open("w", newline="") as file:
        file.write("# Predicted, not measured, by `python -m lab.flashmla_prefill FLASHMLA CUTLASS --write`.\n")
        csv.writer(file, lineterminator="\n").writerows([HEAD, *table])


if __name__ == "__main__":
    sys.exit(main())
