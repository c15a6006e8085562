"""Build hook: put flash_mla/ and kernel/ into the wheel, where `kernel` is called dsv4_attention."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAMES = {"flash_mla": "flash_mla", "kernel": "dsv4_attention"}


class Packages(BuildHookInterface):  # type: ignore[misc]
    """Copies of both packages, whose imports have the new name."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the copies, and add them to the wheel."""
        self.folder = TemporaryDirectory()
        for package, name in NAMES.items():
            source = Path(self.root).parent / package
            for path in source.rglob("*.py"):
                copy = Path(self.folder.name, name, path.relative_to(source))
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_text(renamed(path.read_text()))
            build_data["force_include"][str(Path(self.folder.name, name))] = name
        build_data["force_include"][str(Path(self.root).parent / "LICENSE")] = "dsv4_attention/LICENSE"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the copies."""
        self.folder.cleanup()


def renamed(source: str) -> str:
    """Return a module with its imports of `kernel` from dsv4_attention, under the names that it uses."""
    source = re.sub(r"^(\s*)import kernel$", r"\1import dsv4_attention as kernel", source, flags=re.MULTILINE)
    return re.sub(r"^(\s*)from kernel\b", r"\1from dsv4_attention", source, flags=re.MULTILINE)
