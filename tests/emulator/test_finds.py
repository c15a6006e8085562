"""Every statement of the pages about findings has tests. finds.toml lists them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from test_pairs import TWINS

from emulator import errors
from emulator.leniency import TEXTS, Leniency

HERE = Path(__file__).parent
FINDS: dict[str, Any] = tomllib.loads((HERE / "finds.toml").read_text())
SHOWN: list[list[str]] = [*(each["shown_by"] for each in FINDS["reported"]), *FINDS["lowered"].values()]


def known() -> set[str]:
    """Return all tests of the emulator as FILE::NAME, and the names of the broken twins."""
    found = {twin.name for twin in TWINS}
    for path in HERE.glob("test_*.py"):
        found |= {f"{path.stem[5:]}::{name[5:]}" for name in re.findall(r"^def (test_\w+)", path.read_text(), re.M)}
    return found


def test_each_statement_has_tests() -> None:
    said = [*(each["when"] for each in FINDS["reported"]), *(rule.reason.check for rule in Leniency)]
    assert len(said) == len(set(said)) > 50
    assert all(SHOWN)


def test_each_rule_has_a_reason_tests_and_a_place() -> None:
    names = [rule.title for rule in Leniency]
    assert names == [*tomllib.loads(TEXTS.read_text())] == [*FINDS["lowered"]]
    sources = "".join(path.read_text() for path in TEXTS.parent.rglob("*.py"))
    assert [rule.name for rule in Leniency if f"Leniency.{rule.name}" not in sources] == []


def test_each_level_below_fault_has_evidence() -> None:
    kinds = {"silicon", "machine code", "programs", "PTX alone"}
    found = [rule.reason.evidence for rule in Leniency]
    assert all(found) and {kind for each in found for kind in each} == kinds
    assert [each for each in found if "PTX alone" in each and len(each) > 1] == []


def test_the_tests_exist() -> None:
    there = known()
    assert [test for tests in SHOWN for test in tests if test not in there] == []


def test_every_error_class_has_a_statement() -> None:
    """But for the roots of the tree, the classes of errors in the program's text, and a missing assembler."""
    roots = {"EmulatorError", "PtxError", "PtxSyntaxError", "UnknownInstruction", "AssemblerError", "Fault", "Stopped"}
    roots |= {"HostFault"}
    classes = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}
    assert {each["error"] for each in FINDS["reported"]} == classes - roots - {"CooperativeLaunchTooLarge"}
