"""The command `replay`: run a recording again, on the emulated device, without the host code that it was made of."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..emulation import emulate
from ..errors import EmulatorError
from ..findings import report_lines
from .scripts import InvalidInput, add_completion

if TYPE_CHECKING:
    import torch

    from ..recordings.format import Layout

FAILED = 3


def add_command(commands: Any) -> None:
    """Add this subcommand to the parser."""
    replayed = commands.add_parser(
        "replay",
        help="run a recording of launches again",
        description="Run the launches of FILE, a recording such as results/RUN/recordings/0.json, on inputs drawn from "
        f"--seed. CuTeDSL is not needed. Exit code {FAILED} means that a launch ended with an error.",
    )
    add_completion(replayed, seeded="the inputs and of --completion random")
    replayed.add_argument("recording", type=Path, metavar="FILE")
    replayed.set_defaults(do=_replay)


def _replay(options: argparse.Namespace) -> int:
    from ..recordings import Emulated, RecordingError, replay
    from ..recordings.format import load_file

    try:
        recording = load_file(options.recording)
    except RecordingError as error:
        raise InvalidInput(str(error)) from error
    tensors = {name: _drawn(layout, options.seed + i) for i, (name, layout) in enumerate(recording.tensors.items())}
    results: dict[str, torch.Tensor] = {}
    with emulate(completion=options.completion, seed=options.seed) as device:
        try:
            results = replay(recording, tensors, Emulated(), frozenset(tensors))
        except EmulatorError as error:
            device.error = error
        print(*report_lines(device), sep="", end="", file=sys.stderr)
        failed, device.error = device.error is not None, None
        for launch in device.launches:
            print(f"{launch.kernel}: grid {launch.grid}, {launch.instructions:,} instructions, {launch.seconds:.2f} s")
    for name, tensor in results.items():
        print(f"{name} {list(tensor.shape)}: from {tensor.min():.4g} to {tensor.max():.4g}")
    return FAILED if failed else 0


def _drawn(layout: Layout, seed: int) -> torch.Tensor:
    """Return a tensor of a layout: its example, or normal numbers; integers without an example are 0."""
    import torch

    from ..recordings.values import dtype

    kind = dtype(layout.dtype)
    storage = torch.zeros(layout.storage_bytes, dtype=torch.uint8).view(kind)
    tensor = storage.as_strided(layout.shape, layout.strides, layout.offset)
    if layout.example:
        example = torch.frombuffer(bytearray(layout.example), dtype=kind).view(layout.shape)
        return tensor.copy_(example)
    if not kind.is_floating_point:
        return tensor
    return tensor.copy_(torch.randn(layout.shape, generator=torch.Generator().manual_seed(seed)))
