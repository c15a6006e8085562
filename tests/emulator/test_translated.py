"""The restricted Python of the emulator beside the LLVM IR that numba made of it."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PROGRAM: Final = """
import json
from lab.checks import translated
print(json.dumps({str(path): text for path, text in translated().items()}))
"""


@pytest.mark.long
@pytest.mark.skipif(platform.machine() != "x86_64", reason="needs x86-64: LLVM optimises for its vectors")
def test_the_translations_are_of_these_sources() -> None:
    """Translate in a process of its own, because numba numbers what it compiles."""
    made = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    texts = json.loads(made)
    assert len(texts) == 2
    assert texts == {path: Path(path).read_text() for path in texts}, "run python -m lab.checks"
