"""The cache of compiled configurations: another process finds an entry if nothing has changed, and only then."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.paths import ROOT

pytestmark = pytest.mark.thorough
PRELUDE = """
from pathlib import Path
from harness.judge import kept
from remote.device import Emulated
device = Emulated()
import kernel.compiled
from stages.catalog import GATE
keeping = kept.KeptKernels(Path("kept"), device)
kept.use(keeping)
config = GATE.load().CASES[0].config
"""
MARKED = """
def compiled(config):
    print("compiled")
    return kernel.compiled.CompiledFmha(config, None, "", b"", (), 0.0)
keeping.keep = lambda compiled: None
kernel.compiled._compiled = compiled
kernel.compiled.compile(config)
"""
"""Prints whether the kernel would be compiled, without compiling it."""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the project, and compile its gate into the cache."""
    tree = tmp_path_factory.mktemp("tree")
    for folder in ("kernel", "stages", "harness", "remote", "emulator"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
    program = "print(keeping.has(config)); kernel.compile(config); print(keeping.has(config))"
    assert run(tree, PRELUDE + program).split() == ["False", "True"]
    return tree


def run(tree: Path, program: str, **env: str) -> str:
    """Run a program in the copy, and return its output."""
    environment = {**os.environ, "PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": "1", **env}
    done = subprocess.run([sys.executable, "-c", program], cwd=tree, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_what_is_found_does_what_was_compiled(tree: Path) -> None:
    program = """
import torch
found, fresh = kernel.compiled.compile(config), kernel.compiled._compiled(config)
assert found.ptx == fresh.ptx and found.cubin == fresh.cubin and found.layouts == fresh.layouts
assert found.function.artifacts.CUBIN == fresh.cubin
from stages.inputs import draw
from stages.launch import launch
case, results = GATE.load().CASES[0], []
for compiled in (found, fresh):
    kernel.compiled.compile.cache_clear()
    keeping.find = lambda config, compiled=compiled: compiled
    with device.running("lazy", 0):
        results.append(launch(case, draw(case, 1), "cpu"))
print(all(torch.equal(a, b) for a, b in zip(vars(results[0]).values(), vars(results[1]).values())))
"""
    assert run(tree, PRELUDE + program) == "True"


@pytest.fixture
def changed(tree: Path, tmp_path: Path) -> Path:
    """Copy the copy to another folder, where it can be changed. It still finds the cached entry."""
    shutil.copytree(tree, tmp_path / "tree")
    return tmp_path / "tree"


def test_another_checkout_finds_it_and_the_lines_are_its_own(changed: Path) -> None:
    program = "ptx = kernel.compiled.compile(config).ptx; print(str(Path.cwd()) in ptx, keeping.has(config))"
    assert run(changed, PRELUDE + program) == "True True"
    assert run(changed, PRELUDE + MARKED) == ""


def test_configurations_are_compiled_in_other_processes(changed: Path) -> None:
    program = """
import dataclasses
from harness.judge.compile import compiled_ahead
configs = [dataclasses.replace(config, mask=mask) for mask in ('length', 'causal')]
assert not any(map(keeping.has, configs))
with compiled_ahead(configs, 2) as wait_for:
    wait_for(configs[1])
    print(keeping.has(configs[1]))
print(keeping.has(configs[0]), kernel.compiled.compile.cache_info().misses)
"""
    assert run(changed, PRELUDE + program, OMP_NUM_THREADS="1").split() == ["True", "True", "0"]


def test_a_changed_source_is_compiled(changed: Path) -> None:
    with (changed / "kernel/device/tiles.py").open("a") as file:
        file.write("# changed\n")
    assert run(changed, PRELUDE + MARKED) == "compiled"


def test_another_environment_or_configuration_is_compiled(changed: Path) -> None:
    assert run(changed, PRELUDE + MARKED, CUTE_DSL_LINEINFO="0") == "compiled"
    assert run(changed, PRELUDE + "import dataclasses; config = dataclasses.replace(config, sink=True)" + MARKED) == (
        "compiled"
    )


def test_a_damaged_or_renamed_file_is_not_taken(changed: Path) -> None:
    (path,) = (changed / "kept").iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert run(changed, PRELUDE + MARKED) == "compiled"
    path.write_bytes(whole)
    rename = "Path('kept', keeping.key(config)).rename(Path('kept', keeping.key(None)))\nkeeping.key = lambda _, key="
    assert run(changed, PRELUDE + rename + "keeping.key(None): key" + MARKED) == "compiled"


def test_a_kernel_that_changes_under_a_process_is_neither_found_nor_kept(changed: Path) -> None:
    edit = "open('kernel/device/tiles.py', 'a').write('# changed')\n"
    assert run(changed, PRELUDE + edit + MARKED) == "compiled"
    keep = PRELUDE + edit + "kernel.compiled.compile(config); print(len(list(Path('kept').iterdir())))"
    assert run(changed, keep) == "1"


def test_a_process_that_imported_the_kernel_first_keeps_nothing(changed: Path) -> None:
    assert run(changed, "import emulator, kernel" + PRELUDE + MARKED) == "compiled"
