"""The comparison of two checkouts' kernels on a GPU, as far as it needs none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import kernel
from lab import decode_rows


def test_another_checkout_is_imported_beside_the_own_one(tmp_path: Path) -> None:
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel" / "__init__.py").write_text("def where():\n    return __file__\n")
    with decode_rows.importing(tmp_path):
        import kernel as other
    assert sys.modules["kernel"] is kernel
    assert Path(other.where()) == tmp_path / "kernel" / "__init__.py"  # type: ignore[attr-defined]


def test_goals_compare_kernels_and_layouts() -> None:
    times = {
        "serve-128h-b64-csa-v4": {"before": 60.0, "now": 50.0, "FlashMLA": 58.0},
        "serve-128h-b64-csa-bf16": {"before": 45.0, "now": 45.0},
        "serve-128h-b64-csa-v41": {"before": 70.0, "now": 55.0},
    }
    found = {(goal.other, name): ratio for goal in decode_rows.GOALS for name, ratio in goal.reached(times)}
    assert found == {
        ("FlashMLA", "serve-128h-b64-csa-v4"): 58 / 50,
        ("bf16", "serve-128h-b64-csa-v4"): 45 / 50,
        ("v4", "serve-128h-b64-csa-v41"): 50 / 55,
    }


def test_a_folder_without_the_shapes_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        decode_rows.main([str(tmp_path)])
    assert ended.value.code == 2
    assert "make one by git worktree add" in capsys.readouterr().err
