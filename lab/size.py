"""`python -m lab.size`: Python lines of each package and bytes of the repository, with the limits of limits.toml.

Lines are those of the files that git tracks, empty lines and comments included. The exit status is 1 if a limit is
exceeded. CI prints the table without failing: a limit is a scale, and not worth denser code.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table

ROOT: Final = Path(__file__).resolve().parents[1]
LIMITS: Final = ROOT / "limits.toml"
NOT_SHIPPED: Final = ("lab", "tests")
"""Folders with Python that is not part of "shipped". Tests have no limit."""


def sizes() -> Counter[str]:
    """Count the lines of each top-level folder, of all that ships ("shipped"), and the bytes of all tracked files."""
    listed = ["git", "-C", str(ROOT), "ls-files", "-z"]
    names = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split("\0")
    found: Counter[str] = Counter()
    for path in (ROOT / name for name in names if name and (ROOT / name).is_file()):
        found["tracked bytes"] += path.stat().st_size
        folder, *inner = path.relative_to(ROOT).parts
        if path.suffix == ".py" and inner:
            lines = len(path.read_bytes().splitlines())
            found.update({folder: lines} if folder in NOT_SHIPPED else {folder: lines, "shipped": lines})
    return found


def main() -> int:
    """Print the table; return the exit status."""
    found, limits = sizes(), tomllib.loads(LIMITS.read_text())
    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("", "now", "limit", "left"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, limit in limits.items():
        left = limit - found[name]
        table.add_row(name, f"{found[name]:,}", f"{limit:,}", f"{left:,}", style="red" if left < 0 else None)
    Console(width=80).print(table)
    exceeded = [name for name, limit in limits.items() if found[name] > limit]
    if exceeded:
        print(f"more than limits.toml allows: {', '.join(exceeded)}; a commit that raises a limit says why")
    return 1 if exceeded else 0


if __name__ == "__main__":
    sys.exit(main())
