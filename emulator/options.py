"""Options of `emulate` that command lines offer: those of `run` and of the pytest plugin."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, Final, get_args

from .machine.launch.launch import Diagnostics, LevelName, Numerics


def _report(file: str) -> str:
    """Return a file of known findings. Raises ArgumentTypeError, before the run, if it is none."""
    from .baseline import Baseline

    try:
        Baseline(file)
    except ValueError as why:
        raise argparse.ArgumentTypeError(str(why)) from why
    return file


SHARED: Final[dict[str, dict[str, Any]]] = {
    "seed": {"type": int, "default": 0, "help": "seed of random completion (default: %(default)s)"},
    "level": {
        "choices": get_args(LevelName),
        "default": "fault",
        "help": "which findings are errors. fault: some legal timing breaks the program; formal: also violations of "
        "PTX that no known hardware shows; pedantic: also recommended habits, such as tcgen05.fence (default: "
        "%(default)s)",
    },
    "numerics": {
        "choices": get_args(Numerics),
        "default": "fp32",
        "help": "tcgen05.mma accumulates in float32 or rounds as the tensor core does (default: %(default)s)",
    },
    "diagnostics": {
        "choices": get_args(Diagnostics),
        "default": "stop",
        "help": "stop at the first error, or continue after a missing wait or fence and list the errors at the end "
        "(default: %(default)s)",
    },
    "baseline": {
        "type": _report,
        "metavar": "FILE",
        "help": "a report in JSON of an earlier run: its findings are listed and are no errors",
    },
    "budget": {"type": int, "metavar": "N", "help": "stop a launch when a warp has executed N instructions"},
}
"""The arguments of each option for argparse."""


def add_options(add: Callable[..., Any], prefix: str) -> None:
    """Add the shared options to a parser by its function `add`. prefix: of their names."""
    for name, arguments in SHARED.items():
        add(f"{prefix}{name}", **arguments)
