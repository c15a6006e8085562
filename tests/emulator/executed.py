"""A pytest plugin that notes which families of instructions each test executes; as a command, it picks a few.

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
from emulator.engine.placement import Placement
from emulator.engine.segments import Segment
from emulator.ptx.syntax import Instr
from tests.emulator import one_instruction

executed: dict[str, set[str]] = defaultdict(set)
running = ""
of_block, of_segment = Code.write, one_instruction.lowered


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--executed", type=Path, required=True, help="where to write what each test executed")


def note(instrs: Iterable[Instr]) -> None:
    """The families as the coverage table names them."""
    executed[running] |= {Form("", "", instr.text).family for instr in instrs}


def _block(code: Code, pc: int) -> Any:
    """Note the families of a block, whose function is written when a warp reaches it."""
    block = code.flow.blocks[pc]
    note(code.flow.kernel.instrs[block.start : block.end])
    return of_block(code, pc)


def _segment(segment: Segment, placement: Placement) -> Any:
    """What one_instruction compiles it runs."""
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
    """The families of which the coverage table says that at least some forms run."""
    return {family.name for family in families(read_forms()) if family.state != "refused"}


def cover(by_test: dict[str, list[str]]) -> list[str]:
    """Tests that execute between them every supported family that any does: the largest part first."""
    left = supported() & {name for names in by_test.values() for name in names}
    chosen = []
    while left:
        chosen.append(max(sorted(by_test), key=lambda test: len(left & {*by_test[test]})))
        left -= {*by_test[chosen[-1]]}
    return chosen


if __name__ == "__main__":
    print("\n".join(cover(json.loads(Path(sys.argv[1]).read_text()))))
