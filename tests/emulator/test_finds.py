"""Every sentence of docs/emulator.md about a finding has tests. finds.toml lists them."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from test_pairs import TWINS

HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "docs/emulator.md").read_text()
SHOWN: dict[str, list[str]] = tomllib.loads((HERE / "finds.toml").read_text())["shown"]
TABLES = ("| error | means |", "| check | level | because |")


def rows(head: str) -> Iterator[list[str]]:
    """Yield the cells of a table's rows."""
    for line in PAGE.split(head, 1)[1].splitlines()[2:]:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split(" | ")]


def sentences() -> Iterator[str]:
    """Yield each error's sentences, prefixed with its name, and each check of a level."""
    for name, means in rows(TABLES[0]):
        for part in re.split(r"; |\. (?=[A-Z])|: (?=the wait|one line)", means):
            yield f"{name.replace('`', '')}: {part}"
    yield from (check for check, *_ in rows(TABLES[1]))


def known() -> set[str]:
    """Return all tests of the emulator as FILE::NAME, and the names of the broken twins."""
    found = {twin.name for twin in TWINS}
    for path in HERE.glob("test_*.py"):
        found |= {f"{path.stem[5:]}::{name[5:]}" for name in re.findall(r"^def (test_\w+)", path.read_text(), re.M)}
    return found


def test_each_sentence_has_tests() -> None:
    said = list(sentences())
    assert len(said) == len(set(said)) > 50
    assert [sentence for sentence in said if not SHOWN.get(sentence)] == []
    assert [sentence for sentence in SHOWN if sentence not in said] == []


def test_the_tests_exist() -> None:
    there = known()
    assert [test for tests in SHOWN.values() for test in tests if test not in there] == []
