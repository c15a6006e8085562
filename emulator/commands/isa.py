"""The command `isa`: print the instruction coverage."""

from __future__ import annotations

import argparse
from typing import Any


def add_command(commands: Any) -> None:
    """Add this subcommand to the parser."""
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
