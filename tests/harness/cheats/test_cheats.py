"""Every cheat of cheats.toml is stopped by name, and `accepted` stays where it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.client import vouched
from harness.host import walls
from harness.host.repository import ACCEPTED, Repository
from harness.host.verdict import EXIT_BAD_INPUT, Verdict
from harness.paths import ROOT
from harness.report.record import load
from lab.judging import loopback
from tests.harness.conftest import Accepted
from tests.system import Checkout
from tests.tiers import tier

CHEATS: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("cheats.toml").read_text())["cheat"]
RIGHT = '"scale_log2": scale * math.log2(math.e)'
#: One that is judged, and one that is rejected before a run.
QUICK = ("forged verdict", "looser pins")
#: The first of each verdict.
DIFFERENT = list({each["verdict"]: each for each in reversed(CHEATS)}.values())
#: Changes that need no malice.
CARELESS = [each for each in CHEATS if each["name"] in ("luck", "time that the clock skips", "forgotten feature")]
#: By these a host over SSH is tried. Those that need no malice and the first are long; the others, and the same without
#: SSH, are thorough.
OVER_SSH = [each for each in CHEATS if each in DIFFERENT or each in CARELESS]

#: Code that replaces text in the PTX of the recordings, and names the modules anew.
OTHER_PTX = """
import atexit, glob, hashlib, os, re, sys
def replace_ptx():
    out = sys.argv[sys.argv.index("--out") + 1]
    for path in glob.glob(out + "/recordings/*.ptx"):
        text = open(path).read()
        for pattern, new in {replacements}:
            text, count = re.subn(pattern, new, text)
            assert count
        old, name = os.path.basename(path)[:-4], hashlib.sha256(text.encode()).hexdigest()
        open(out + "/recordings/" + name + ".ptx", "w").write(text)
        for recording in glob.glob(out + "/recordings/*.json"):
            said = open(recording).read()
            open(recording, "w").write(said.replace(old, name))
if "--out" in sys.argv:
    atexit.register(replace_ptx)
"""

needs_walls = pytest.mark.skipif(
    subprocess.run([sys.executable, "-IS", walls.__file__, "--try"], capture_output=True).returncode != 0,
    reason="this machine allows no user namespaces",
)


SIM, SSH = "sim", "loopback"


@pytest.fixture(scope="module")
def accepted_over_ssh(accepted: Checkout, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Checkout, str]]:
    """Return a clone in which the kernel was accepted on an SSH host, and HOME. All cheats share the host."""
    folder = tmp_path_factory.mktemp("ssh")
    clone = accepted.copied(folder / "clone")
    with loopback(clone.path, folder) as home:
        done = stage(clone, SSH, "--again", HOME=home)
        assert done.returncode == 0, done.stdout + done.stderr
        record = load(max(clone.path.glob("results/2*")))
        commit = Repository(clone.path).resolve(ACCEPTED)
        assert (record.target, record.tree.commit, record.tree.changed) == (SSH, commit, [])
        yield clone, home


@pytest.fixture(scope="module")
def accepted(accepted_once: Accepted) -> Checkout:
    """Return a clone in which the kernel was accepted."""
    assert "first run of this clone" in accepted_once.output
    return accepted_once.checkout


def stage(checkout: Checkout, target: str = SIM, *more: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "harness", "stage", "D1.1", "--target", target, *more]
    env = os.environ | env
    return subprocess.run(command, cwd=checkout.path, capture_output=True, text=True, timeout=600, env=env)


def apply(cheat: dict[str, Any], checkout: Checkout) -> None:
    """Make the change."""
    if cheat.get("wrong"):
        checkout.replace("kernel/host.py", RIGHT, RIGHT.replace("scale *", "1.2 * scale *"))
    for path, old, new in cheat.get("edits", []):
        checkout.replace(path, old, new)
    if "python" in cheat:
        append(cheat["python"], checkout)
    if "ptx" in cheat:
        append(OTHER_PTX.format(replacements=cheat["ptx"]), checkout)
    if "add" in cheat:
        path, text = cheat["add"]
        (checkout.path / path).parent.mkdir(exist_ok=True)
        (checkout.path / path).write_text(text)
    if "link" in cheat:
        path, to = cheat["link"]
        (checkout.path / path).symlink_to(to)


def append(code: str, checkout: Checkout, path: str = "kernel/__init__.py") -> None:
    """Append code to a file, by default to the kernel's package, which every process of a candidate imports."""
    with (checkout.path / path).open("a") as file:
        file.write(code)


def marked(cheat: dict[str, Any], target: str) -> Any:
    if target == SSH:
        marks = [pytest.mark.sshd, *tier(False, cheat in CARELESS or cheat["name"] in QUICK)]
    else:
        marks = [] if cheat["name"] in QUICK else [pytest.mark.thorough]
    return pytest.param(cheat, target, id=f"{cheat['name']}, {target}", marks=marks)


@needs_walls
@pytest.mark.parametrize(
    ("cheat", "target"),
    [marked(cheat, target) for target, cheats in ((SIM, CHEATS), (SSH, OVER_SSH)) for cheat in cheats],
)
def test_a_cheat_is_stopped_by_name(
    cheat: dict[str, Any], target: str, accepted: Checkout, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    env: dict[str, str] = {}
    if target == SSH:
        accepted, env["HOME"] = request.getfixturevalue("accepted_over_ssh")
    checkout = accepted.copied(tmp_path / "clone")
    repository = Repository(checkout.path)
    if "before" in cheat:
        for file in ("kernel/__init__.py", "kernel/host.py", "kernel/fmha.py"):
            append(cheat["before"], checkout, file)
        assert stage(checkout, target, **env).returncode == 0
    before, old = vouched.accepted(repository), set(checkout.path.glob("results/2*"))
    apply(cheat, checkout)
    done = stage(checkout, target, **env)
    said = done.stdout + done.stderr
    for folder in set(checkout.path.glob("results/2*")) - old:
        said += "".join(path.read_text() for path in folder.glob("verdict.json"))
        for path in folder.glob("**/record.json"):
            said += "".join(case["message"] for case in json.loads(path.read_bytes()).get("cases", []))
    wanted = EXIT_BAD_INPUT if cheat["verdict"] == "rejected" else Verdict[cheat["verdict"]].exit_code
    assert done.returncode == wanted, said[-3000:]
    assert cheat["says"] in said, said[-3000:]
    assert vouched.accepted(repository) == before


def test_there_are_cheats_of_every_kind() -> None:
    names = [cheat["name"] for cheat in CHEATS]
    assert len(names) == len(set(names)) >= 25


@pytest.mark.parametrize("cheat", CHEATS, ids=[cheat["name"] for cheat in CHEATS])
def test_a_cheat_changes_text_that_is_there(cheat: dict[str, Any]) -> None:
    """Most cheats are judged in `make test-thorough` alone, so their text would grow old unseen."""
    wrong = [("kernel/host.py", RIGHT, "")] if cheat.get("wrong") else []
    for path, old, _ in [*wrong, *cheat.get("edits", [])]:
        assert (ROOT / path).read_text().count(old) == 1, path
