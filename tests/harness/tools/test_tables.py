"""Tables of figures: a new file, and one whose comment stays."""

from __future__ import annotations

from pathlib import Path

from harness.tools import tables


def test_a_table_is_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "figures.csv"
    tables.write(path, ("problem", "us"), [("a, b", "1.5")])
    assert path.read_text() == 'problem,us\n"a, b",1.5\n'
    assert tables.read(path) == [("a, b", "1.5")]


def test_a_comment_stays(tmp_path: Path) -> None:
    path = tmp_path / "figures.csv"
    path.write_text("# Predicted.\nproblem,us\na,1\n")
    tables.write(path, ("problem", "us"), [("b", "2")])
    assert path.read_text() == "# Predicted.\nproblem,us\nb,2\n"
