"""docs/tutorial.md is executed as it stands: its commands run, its files are written, its output is compared.

A comment before a code block says what the block is: `run` a command that succeeds, `run: exit N` one that ends with
status N, `file: NAME` a file to write, `shows` lines of the last command's output, where `...` stands for anything.
"""

import os
import re
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/tutorial.md").read_text()
BLOCK = re.compile(r"<!-- (run|file|shows)(?:: (?:exit )?(\S+))? -->\n```\w+\n(.*?)```\n", re.DOTALL)


@dataclass
class Step:
    """A block of the page: what it is, its file name or exit status, and its text."""

    kind: str
    word: str
    text: str


def steps(*headings: str) -> list[Step]:
    """Return the blocks below these headings of the second level, in the page's order."""
    parts = re.split(r"(?m)^## (.*)$", PAGE)[1:]
    found = [text for heading, text in zip(parts[::2], parts[1::2], strict=True) if heading.startswith(headings)]
    return [Step(kind, word, text) for part in found for kind, word, text in BLOCK.findall(part)]


def walk(blocks: list[Step], folder: Path, **environment: str) -> None:
    """Execute the blocks in one shell, then compare what was printed."""
    linked = f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})"
    have = f"for s in venv/lib/python*/site-packages; do [ ! -d $s ] || echo {linked!r} > $s/linked.pth; done"
    script = []
    for i, step in enumerate(blocks):
        if step.kind == "file":
            script.append(f"cat > {step.word} <<'END OF FILE'\n{step.text}END OF FILE")
        elif step.kind == "run":  # torch and CuTeDSL are those of this environment: nothing is downloaded
            commands = "\n".join(f"{line} || failed=$?; {have}" for line in step.text.splitlines())
            script.append(f"failed=0; {{\n{commands}\n}} > {folder}/{i}.out 2>&1; echo $failed > {folder}/{i}.status")
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "PYTHONPATH")}
    env |= {"PATH": f"{Path(sys.executable).parent}:{env['PATH']}"} | environment
    subprocess.run(["bash", "-c", "\n".join(script)], cwd=folder, env=env, timeout=1500, check=True)
    said = ""
    for i, step in enumerate(blocks):
        if step.kind == "run":
            said = (folder / f"{i}.out").read_text()
            assert (folder / f"{i}.status").read_text().strip() == (step.word or "0"), said
        elif step.kind == "shows":
            for line in step.text.splitlines():
                words = r"\s+".join(map(re.escape, line.split())).replace(re.escape("..."), ".*?")
                assert re.search(words, said), f"{line}\nis not in\n{said}"


def test_every_block_of_the_page_is_executed() -> None:
    assert len(BLOCK.findall(PAGE)) == PAGE.count("\n```\n")
    assert len(steps("Get", "Walk 1", "Walk 2")) == len(BLOCK.findall(PAGE))


@pytest.mark.long
def test_the_first_fault_in_a_kernel_of_ones_own(tmp_path: Path, published: Path) -> None:
    walk(steps("Get", "Walk 1"), tmp_path, REPOSITORY=str(published))


@pytest.mark.long
def test_the_first_accept(tmp_path: Path, published: Path) -> None:
    """With this environment's packages in place of those that `make` would install."""
    flags = f"VENV={Path(sys.executable).parents[1]} READY="
    walk(steps("Get", "Walk 2"), tmp_path, REPOSITORY=str(published), MAKEFLAGS=flags)


@pytest.mark.long
def test_the_call_of_the_kernel_runs() -> None:
    """The code of docs/howto/use-the-kernel.md."""
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/howto/use-the-kernel.md").read_text(), re.DOTALL)
    command = [sys.executable, "-c", f"{code}\nassert result.o.shape == q.shape"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
