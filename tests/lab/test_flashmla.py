"""Cases and counts of FlashMLA's own tests, from files as its checkout has them."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from lab import flashmla

PREFILL = """
if __name__ == "__main__":
    device = start_a_gpu()
    first_cases = [s_q for s_q in (1, 62)]
    testcases = first_cases + [213]
    failed_cases = []
    for test in testcases:
        run_test(test)
"""


def test_prefill_cases_are_those_of_the_main_block_which_does_not_run(tmp_path: Path) -> None:
    file = tmp_path / "prefill.py"
    file.write_text(PREFILL)
    module = ModuleType("prefill")
    module.__file__ = str(file)
    assert flashmla.prefill_cases(module) == [1, 62, 213]


def test_kv_tiles_of_both_caches_and_of_all_row_tiles() -> None:
    assert flashmla.kv_tiles(SimpleNamespace(s_q=3, h_q=128, topk=133, decode=None)) == 3 * 2 * 3
    decode = SimpleNamespace(b=4, extra_topk=64)
    assert flashmla.kv_tiles(SimpleNamespace(s_q=2, h_q=64, topk=128, decode=decode)) == 8 * 3


def test_counts_of_each_set() -> None:
    outcomes = ("passed", "failed", "timed", "too large", "passed")
    (row,) = flashmla.table([flashmla.Verdict("a", each) for each in outcomes], 150, 32, "a GPU")
    assert list(row.values()) == ["a", "a GPU", "times 32", "5", "1", "150", "1", "3", "2"]


def test_a_checkout_without_the_tests_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["flashmla", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        flashmla.arguments()
    assert ended.value.code == 2


def test_written_counts_replace_those_of_the_same_device_and_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flashmla, "COUNTS", tmp_path / "counts.csv")
    flashmla.COUNTS.write_text("# a comment\n" + ",".join(flashmla.HEAD) + "\n")
    for verdicts, tiles, on in (("failed", 48, "b"), ("failed", 150, "b"), ("failed", 48, "g"), ("passed", 48, "b")):
        flashmla.write(flashmla.table([flashmla.Verdict("a", verdicts)], tiles, 1, on))
    assert flashmla.COUNTS.read_text().splitlines() == [
        "# a comment",
        "set,on,queries,cases,timed,tiles,larger,run,pass",
        "a,b,as drawn,1,0,150,0,1,0",
        "a,g,as drawn,1,0,48,0,1,0",
        "a,b,as drawn,1,0,48,0,1,1",
    ]
