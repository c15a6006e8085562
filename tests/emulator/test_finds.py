"""Each sentence of docs/emulator.md about what is found has tests: finds.toml says which."""

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
    """The cells of a table's rows."""
    for line in PAGE.split(head, 1)[1].splitlines()[2:]:
        if not line.startswith("|"):
            return
        yield [cell.strip() for cell in line.strip("|").split(" | ")]


def sentences() -> Iterator[str]:
    """What each error means, sentence by sentence, behind its name; what each check of a level is."""
    for name, means in rows(TABLES[0]):
        for part in re.split(r"; |\. (?=[A-Z])|: (?=the wait|one line)", means):
            yield f"{name.replace('`', '')}: {part}"
    yield from (check for check, *_ in rows(TABLES[1]))


def known() -> set[str]:
    """All tests of the emulator as FILE::NAME, and the names of the broken twins."""
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
