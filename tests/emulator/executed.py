"""A pytest plugin that records which instruction families each test executes. As a command it selects a few tests.

python -m pytest -p tests.emulator.executed --executed=FILE tests/emulator
python -m tests.emulator.executed FILE > tests/emulator/cover.txt
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from emulator.coverage import Form, families, read_forms
from emulator.engine.code import Code
from emulator.engine.registers import Placement
from emulator.engine.segments import Segment
from emulator.ptx.syntax import Instr
from tests.emulator import one_instruction

executed: dict[str, set[str]] = defaultdict(set)
running = ""
of_block, of_segment = Code.write, one_instruction.lowered


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--executed", type=Path, required=True, help="where to write what each test executed")


def note(instrs: Iterable[Instr]) -> None:
    """Record the instructions' families by the names of the coverage table."""
    executed[running] |= {Form("", "", instr.text).family for instr in instrs}


def _block(code: Code, pc: int) -> Any:
    """Record the families of a block, which is compiled when a warp first reaches it."""
    block = code.flow.blocks[pc]
    note(code.flow.kernel.instrs[block.start : block.end])
    return of_block(code, pc)


def _segment(segment: Segment, placement: Placement) -> Any:
    """Record the instructions that one_instruction compiles and runs."""
    note(effect.instr for effect in segment.effects)
    return of_segment(segment, placement)


def pytest_configure() -> None:
    Code.write = _block  # type: ignore[method-assign, assignment]
    one_instruction.lowered = _segment


def pytest_runtest_setup(item: pytest.Item) -> None:
    global running
    running = item.nodeid


def pytest_sessionfinish(session: pytest.Session) -> None:
    said = {test: sorted(names) for test, names in executed.items()}
    session.config.getoption("--executed").write_text(json.dumps(said))


def supported() -> set[str]:
    """Return the families that the coverage table calls supported at least in part."""
    return {family.name for family in families(read_forms()) if family.state != "rejected"}


def cover(by_test: dict[str, list[str]]) -> list[str]:
    """Select tests that together execute every supported family that any test executes, largest contribution first."""
    left = supported() & {name for names in by_test.values() for name in names}
    chosen = []
    while left:
        chosen.append(max(sorted(by_test), key=lambda test: len(left & {*by_test[test]})))
        left -= {*by_test[chosen[-1]]}
    return chosen


if __name__ == "__main__":
    print("\n".join(cover(json.loads(Path(sys.argv[1]).read_text()))))
