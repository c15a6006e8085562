"""The emulator's command line: `ptx-emulator COMMAND`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from .. import progress
from ..chip import NAME
from .sarif import version
from .scripts import InvalidInput, run_on_another_chip

COMMANDS: Final = ("run", "time", "debug", "blame", "replay", "resources", "annotate", "mcp", "isa")
"""The modules of this package that are commands."""
SHOWN: Final = ("run", "time", "blame", "replay")
"""Those that show what they do: others are done at once, or ask for input."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code. argv: without the program's name; None: the process's own."""
    words = sys.argv[1:] if argv is None else argv
    options = _parser(words[0] if words else "").parse_args(words)
    code: int | None = run_on_another_chip(getattr(options, "device", NAME))
    if words[0] in SHOWN:
        progress.show()
    try:
        return options.do(options) if code is None else code
    except InvalidInput as why:
        print(why, file=sys.stderr)
        return 2


def _parser(command: str) -> argparse.ArgumentParser:
    """Make the parser of one command, which spares imports; of all, for their list, if there is none of that name."""
    parser = argparse.ArgumentParser(prog="ptx-emulator", description="A functional emulator of the B200.")
    parser.add_argument("--version", action="version", version=f"ptx-emulator {version()}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name in (command,) if command in COMMANDS else COMMANDS:
        import_module(f".{name}", __package__).add_command(commands)
    return parser
