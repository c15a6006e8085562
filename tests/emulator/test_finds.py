"""Every statement of the pages about findings has tests. finds.toml lists them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from test_pairs import TWINS

from emulator import errors

HERE = Path(__file__).parent
FINDS: dict[str, list[dict[str, str | list[str]]]] = tomllib.loads((HERE / "finds.toml").read_text())
STATEMENTS = [*FINDS["reported"], *FINDS["lowered"]]


def known() -> set[str]:
    """Return all tests of the emulator as FILE::NAME, and the names of the broken twins."""
    found = {twin.name for twin in TWINS}
    for path in HERE.glob("test_*.py"):
        found |= {f"{path.stem[5:]}::{name[5:]}" for name in re.findall(r"^def (test_\w+)", path.read_text(), re.M)}
    return found


def test_each_statement_has_tests() -> None:
    said = [str(each.get("when") or each["check"]) for each in STATEMENTS]
    assert len(said) == len(set(said)) > 50
    assert [each for each in STATEMENTS if not each["shown_by"]] == []


def test_each_level_below_fault_has_evidence() -> None:
    kinds = {"silicon", "machine code", "programs", "PTX alone"}
    found = [each["evidence"] for each in FINDS["lowered"]]
    assert all(found) and {kind for each in found for kind in each} == kinds
    assert [each for each in found if "PTX alone" in each and len(each) > 1] == []


def test_the_tests_exist() -> None:
    there = known()
    assert [test for each in STATEMENTS for test in each["shown_by"] if test not in there] == []


def test_every_error_class_has_a_statement() -> None:
    """But for the roots of the tree, the classes of errors in the program's text, and a missing assembler."""
    roots = {"EmulatorError", "PtxError", "PtxSyntaxError", "UnknownInstruction", "AssemblerError", "Fault", "Stopped"}
    classes = {name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, Exception)}
    assert {each["error"] for each in FINDS["reported"]} == classes - roots - {"CooperativeLaunchTooLarge"}
