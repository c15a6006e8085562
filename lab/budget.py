"""The resources of each configuration, from kernel.sm100.budget, and counts of launches compared with the ideal.

`python -m lab.budget` prints both, `python -m lab.budget D1.4` the first for the configurations of one milestone.
Instructions are the PTX instructions of a softmax warp per KV tile, including its waits. Flops are the tensor cores'
flops, divided by 4 * rows * visible keys * head dim. Bytes are those that TMA moves into and out of shared
memory, divided by one read of Q, one read of each visible key and value for every CTA, and one write of every output.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from emulator.progress import doing, show
from remote.device import Emulated
from stages.catalog import runnable

if TYPE_CHECKING:
    from kernel import FmhaConfig
    from stages.case import Case
    from stages.inputs import Inputs

FEW_TILES, MANY_TILES = 3, 7


@dataclass(frozen=True)
class Counts:
    """Counts of one launch: instructions of the first softmax warp, tensor-core flops, bytes copied asynchronously."""

    instructions: int
    flops: int
    copied_bytes: int


def case_of(config: FmhaConfig, tiles: int) -> Case:
    """Return a case of `config` with the rows of one CTA or CTA pair, and `tiles` visible KV tiles in each branch."""
    from stages.case import Case, Compressed

    keys = tiles * config.block_n
    case = Case(
        "budget",
        config.head_dim,
        keys,
        config.mma_ctas * config.block_m,
        p_path=config.p_path,
        shared_kv=config.shared_kv,
        partials=config.partials,
        sinks=(0.0,) if config.sink else None,
        splits=config.splits,
    )
    if config.mask == "causal":
        case = replace(case, lens=(keys,), causal=True)
    if config.compressed != "none":
        topk = keys if config.compressed == "topk" else None
        case = replace(case, compressed=Compressed((3 * keys,), ratio=4, topk=topk))
    assert case.config == config, f"{case.config} is not {config}"
    return case


def counts(case: Case, inputs: Inputs, device: Emulated) -> Counts:
    """Launch a case once, in the device's first completion mode, and return its counts."""
    from stages.launch import launch

    with device.running(device.modes[0], 0) as emulated:
        launch(case, inputs, device.torch_device)
    done: Any = emulated
    stats = done.launches[-1].stats
    softmax = stats.by_warp[case.config.roles.softmax[0]]
    return Counts(softmax, stats.mma_flops, stats.copied_in_bytes + stats.copied_out_bytes)


def visible_keys(case: Case, inputs: Inputs) -> int:
    """Return the number of visible keys, summed over all tokens and both branches."""
    keys = int(case.visible.sum())
    if inputs.topk_indices is not None and inputs.topk_lens is not None:
        counted = torch.arange(inputs.topk_indices.shape[2]) < inputs.topk_lens[..., None]
        return keys + int((counted & (inputs.topk_indices >= 0) & (inputs.topk_indices < case.blocks)).sum())
    return keys + (int(case.visible_blocks.sum()) if case.compressed else 0)


def ideal_flops(case: Case, inputs: Inputs) -> int:
    """Return the flops of the two products over the visible keys."""
    return 4 * case.heads * case.head_dim * visible_keys(case, inputs)


def ideal_bytes(case: Case, inputs: Inputs) -> int:
    """Return the bytes of Q, of each visible key and value once per CTA, all bf16, and of O (bf16) and U (fp32)."""
    rows = case.batch * case.tokens * case.heads * (2 + 2 + 4 * case.partials)
    if case.config.compressed == "topk":
        keys = math.ceil(case.heads / case.config.block_m) * visible_keys(case, inputs)
    else:
        keys = sum(_keys_of_ctas(case, visible) for visible in (case.visible, *_visible_blocks(case)))
    return (rows + keys * 2 * (1 if case.shared_kv else 2)) * case.head_dim


def _visible_blocks(case: Case) -> tuple[torch.Tensor, ...]:
    return () if case.compressed is None else (case.visible_blocks,)


def _keys_of_ctas(case: Case, visible: torch.Tensor) -> int:
    """Return the number of keys that some token of a CTA sees, summed over the CTAs; visible: [batch, tokens, keys]."""
    rows, block = case.tokens * case.heads, case.config.block_m
    tokens = [(row // case.heads, (min(row + block, rows) - 1) // case.heads) for row in range(0, rows, block)]
    return sum(int(visible[:, first : last + 1].any(1).sum()) for first, last in tokens)


def beside_ideal(case: Case, inputs: Inputs, done: Counts) -> str:
    """Return flops and bytes of a launch, relative to the ideal ones, in words."""
    flops, moved = done.flops / ideal_flops(case, inputs), done.copied_bytes / ideal_bytes(case, inputs)
    return f"{flops:.2f} of the ideal flops, {moved:.2f} of the ideal bytes"


def emulated(config: FmhaConfig, device: Emulated) -> Iterator[str]:
    """Yield the counts of one configuration as lines."""
    from stages.inputs import draw

    few, many = case_of(config, FEW_TILES), case_of(config, MANY_TILES)
    few_inputs, many_inputs = draw(few, 0), draw(many, 0)
    first, last = counts(few, few_inputs, device), counts(many, many_inputs, device)
    tiles = (visible_keys(many, many_inputs) - visible_keys(few, few_inputs)) / config.block_n
    yield f"  softmax        {(last.instructions - first.instructions) / tiles:.0f} instructions a warp and KV tile"
    yield f"  many keys      {beside_ideal(many, many_inputs, last)}"


def layers(device: Emulated) -> Iterator[str]:
    """Yield a line for each of D5d's shapes."""
    from stages.d5d import CASES
    from stages.inputs import draw

    for number, case in enumerate(CASES, 1):
        with doing(f"shape {number} of {len(CASES)}"):
            inputs = draw(case, 0)
            line = f"{case.name}: {beside_ideal(case, inputs, counts(case, inputs, device))}"
        yield line


def main() -> None:
    """Print all configurations or a milestone's, with counts if they have no caches. With all, also D5d's shapes."""
    parser = argparse.ArgumentParser(prog="python -m lab.budget", description=main.__doc__)
    parser.add_argument("milestone", nargs="?", default="", help="D1.4, for example (default: all configurations)")
    chosen = parser.parse_args().milestone
    try:
        cases = runnable(chosen).load().CASES if chosen else ()
    except ValueError as why:
        parser.error(str(why))
    device = Emulated()
    show()

    from kernel.sm100.budget import CONFIGS, SERVED_CONFIGS, report

    configs = tuple(dict.fromkeys(case.config for case in cases)) or (*CONFIGS, *SERVED_CONFIGS)
    for number, config in enumerate(configs, 1):
        with doing(f"configuration {number} of {len(configs)}"):
            lines = [*report(config), *(emulated(config, device) if config in CONFIGS else ())]
        print("\n".join(lines), flush=True)
    for line in () if chosen else layers(device):
        print(line, flush=True)


if __name__ == "__main__":
    main()
