"""Compiled configurations on disk: another process starts without compiling, and damaged entries are replaced."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import kernel
from flash_mla import flash_mla_with_kvcache, get_mla_metadata
from kernel import compiled
from kernel.warm import wanted


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Keep configurations in a folder, and in no other cache."""
    monkeypatch.setattr(compiled, "keepers", [])
    monkeypatch.setattr(compiled, "disk", None)
    kernel.keep_on_disk(tmp_path, most=2)
    compiled.compile.cache_clear()
    yield tmp_path
    compiled.compile.cache_clear()


def step(batch: int) -> None:
    """Plan a layer's call."""
    q = torch.ones(batch, 1, 8, 512, dtype=torch.bfloat16, device="meta")
    pages = torch.ones(2, 64, 1, 512, dtype=torch.bfloat16, device="meta")
    indices = torch.zeros(batch, 1, 640, dtype=torch.int32, device="meta")
    flash_mla_with_kvcache(q, pages, None, None, 512, get_mla_metadata()[0], indices=indices)


def test_the_configurations_of_calls_on_meta_tensors() -> None:
    configs = wanted(partial(step, batch) for batch in (1, 1, 64, 512))
    assert len(configs) == len(set(configs)) == 3, "a large batch needs no split keys"


@pytest.mark.long
def test_after_warm_up_nothing_is_compiled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A configuration that another process compiled is loaded and checks its arguments; it is not launched."""
    said: list[str] = []
    (name,) = kernel.warm_up([partial(step, 1)] * 2, processes=2, progress=said.append)
    assert len(said) == 1 and said[0].startswith("1 of 1 configurations") and name in said[0]

    def fails(config: Any) -> Any:
        raise AssertionError(f"{config.name} is compiled again")

    monkeypatch.setattr(compiled, "_compiled", fails)
    (config,) = wanted([partial(step, 1)])
    found = compiled.compile(config)
    assert f".entry {name}" in found.ptx and found.cubin[1:4] == b"ELF" and found.compile_s > 0
    with pytest.raises(TypeError, match="Tensor"):
        found.function(0, 0)
    (entry,) = folder.glob("*.zip")
    entry.write_bytes(entry.read_bytes()[:1000])
    compiled.compile.cache_clear()
    with pytest.raises(AssertionError, match="is compiled again"):
        compiled.compile(config)


def test_the_oldest_entries_make_way(folder: Path) -> None:
    class Function:
        def export_to_c(self, path: str, name: str) -> None:
            Path(path).write_bytes(b"object")

    assert compiled.disk is not None
    for key in "abc":
        compiled.disk.get(key, lambda: (Function(), "ptx", b"", []))
    assert len(list(folder.glob("*.zip"))) == 2
