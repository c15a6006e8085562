"""Temporary replacement of attributes, and functions that are called after an import."""

import importlib
import sys
from importlib import util
from types import ModuleType

import pytest

from emulator.patching import Patches


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Return the name of a module that is not imported yet."""
    (tmp_path / "imported_later.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield "imported_later"
    sys.modules.pop("imported_later", None)


def test_asking_for_a_module_is_no_import_of_it(module):
    """Torch asks for `cutlass` when it is imported, and many programs ask for torch."""
    seen: list[tuple[str, int]] = []
    with Patches() as patches:
        patches.when_imported(module, lambda found: seen.append(("first", found.value)))
        patches.when_imported(module, lambda found: seen.append(("second", found.value)))
        assert util.find_spec(module) is not None
        assert util.find_spec(module) is not None
        assert seen == []
        importlib.import_module(module)
        assert sorted(seen) == [("first", 1), ("second", 1)]
        importlib.reload(sys.modules[module])
    assert len(seen) == 2


def test_nothing_is_called_after_the_end(module):
    seen: list[ModuleType] = []
    with Patches() as patches:
        patches.when_imported(module, seen.append)
        util.find_spec(module)
    importlib.import_module(module)
    assert seen == []


def test_a_missing_module_is_missing(module):
    with Patches() as patches:
        patches.when_imported("not_installed_at_all", print)
        assert util.find_spec("not_installed_at_all") is None
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("not_installed_at_all")
