"""The emulator's command line: `python -m emulator COMMAND`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from ..chip import NAME
from . import annotate, debug, mcp, replay, resources, run, time
from .scripts import InvalidInput, run_on_another_chip


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code. argv: without the program's name; None: the process's own."""
    options = _parser().parse_args(argv)
    code: int | None = run_on_another_chip(getattr(options, "device", NAME))
    try:
        return options.do(options) if code is None else code
    except InvalidInput as why:
        print(why, file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    program = f"python -m {__package__.partition('.')[0]}"
    parser = argparse.ArgumentParser(prog=program, description="A functional emulator of the B200.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in (run, time, debug, replay, resources, annotate, mcp):
        command.add_command(commands)
    _add_isa(commands)
    return parser


def _add_isa(commands: Any) -> None:
    isa = commands.add_parser(
        "isa",
        help="print the instruction coverage as Markdown",
        description="Check every listed instruction form for support and print the results as a table.",
    )
    isa.set_defaults(do=_isa)


def _isa(_options: argparse.Namespace) -> int:
    from ..coverage import families, markdown, read_forms

    print(markdown(families(read_forms())), end="")
    return 0
