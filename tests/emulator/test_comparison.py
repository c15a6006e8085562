"""`time --compare`: two commits, or two scripts, with the real clock and a real repository."""

from __future__ import annotations

import io
import json
import subprocess
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ptx_launch import kernel

from emulator.commands.comparison.differences import Change, line_changes, pairs, role_changes
from emulator.commands.comparison.measured import of_working_tree, timeline
from emulator.commands.comparison.text import difference
from emulator.commands.main import main
from tests.browser import Browser

SCRIPT = """
import sys
import numpy as np
import emulator
import work

for name in work.KERNELS:
    emulator.launch(work.ptx(name, *sys.argv[1:]), None, [np.zeros(64, np.float32)], block=64)
"""
WORK = '''
KERNELS = ["work"]
ROUNDS = 64


def ptx(name, rounds=None):
    body = "".join(f"ex2.approx.ftz.f32 %f{i % 8}, %f{i % 8};\\n" for i in range(int(rounds or ROUNDS)))
    return f""".version 8.7
.target sm_100a
.address_size 64
.visible .entry {name}(.param .u64 x)
{{
.reg .f32 %f<8>; .reg .b64 %rd<2>;
ld.param.b64 %rd1, [x];
ld.global.f32 %f0, [%rd1];
{body}st.global.f32 [%rd1], %f0;
bar.sync 0;
ret;
}}
"""
'''
THREE_KERNELS = 'KERNELS = ["first", "work", "last"]'


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a repository: v1, a slower v2 with two launches more, v4 without any. Its working tree is broken."""
    folder = tmp_path_factory.mktemp("repository")
    git(folder, "init", "--quiet")
    (folder / "bench").mkdir()
    (folder / "bench/script.py").write_text(SCRIPT)
    for tag, work in (
        ("v1", WORK),
        ("v2", WORK.replace("ROUNDS = 64", "ROUNDS = 128").replace('KERNELS = ["work"]', THREE_KERNELS)),
        ("v4", WORK.replace('KERNELS = ["work"]', "KERNELS = []")),
        ("v5", WORK.replace("bar.sync", "bogus")),
    ):
        (folder / "work.py").write_text(work)
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", f"--message={tag}")
        git(folder, "tag", tag)
    git(folder, "rm", "--quiet", "bench/script.py")
    git(folder, "commit", "--quiet", "--message=v6")
    git(folder, "tag", "v6")
    git(folder, "checkout", "--quiet", "v1", "--", "bench/script.py")
    (folder / "work.py").write_text("raise ImportError('of the working tree')\n")
    return folder


def git(folder: Path, *command: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", "-C", folder, *who, *command], check=True)


@pytest.fixture
def there(repository: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(repository)
    return repository


def compared(*arguments: str) -> int:
    return main(["time", "--compare", *arguments])


@dataclass(frozen=True)
class Compared:
    """A comparison of v1 and v2: its page, its JSON, what was printed, and git's status before and after."""

    page: Path
    found: dict[str, Any]
    said: str
    before: str
    after: str


@pytest.fixture(scope="module")
def commits(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Compared:
    folder, said = tmp_path_factory.mktemp("compared"), io.StringIO()
    file, page = folder / "found.json", folder / "page.html"
    status = ["git", "-C", str(repository), "status", "--porcelain"]
    before = subprocess.run(status, capture_output=True, text=True, check=True).stdout
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(said):
        patch.chdir(repository)
        assert main(["time", "--json", str(file), "--html", str(page), "--compare", "v1", "v2", "bench/script.py"]) == 0
    after = subprocess.run(status, capture_output=True, text=True, check=True).stdout
    return Compared(page, json.loads(file.read_text()), said.getvalue(), before, after)


def test_two_commits(commits: Compared) -> None:
    """The slower version's figures, roles, lines and opcodes are named. Neither the working tree nor git changes."""
    assert "base: v1 (" in commits.said and "head: v2 (" in commits.said
    (launch,) = commits.found["launches"]
    cycles = next(each for each in launch["figures"] if each["name"] == "cycles")
    assert cycles["head"] > cycles["base"] + 64
    (opcode,) = [each for each in launch["opcodes"] if each["base"] != each["head"]]
    assert (opcode["name"], opcode["base"], opcode["head"]) == ("ex2", 128, 256)
    (role,) = launch["roles"]
    assert role["base"] == role["head"] == "warps 0 to 1" and role["waits"][0]["name"] == "running"
    assert commits.page.read_text().count("<path") >= 4
    assert commits.after == commits.before


def test_launches_are_paired_by_kernel(commits: Compared) -> None:
    said = commits.said
    assert "1 work " in said and "only in head: first, last" in said and said.count("launch 1: work") == 1


@pytest.mark.long
def test_a_script_of_the_working_tree_and_a_commit(there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (there / "bench/other.py").write_text(SCRIPT.replace("import work", "sys.path.insert(0, 'x'); import kept as work"))
    (there / "bench/kept.py").write_text(WORK)
    assert compared("bench/other.py", "bench/other.py", "32") == 0
    said = capsys.readouterr().out
    assert "(the same PTX)" in said and "%" not in said, "a version beside itself differs in nothing"
    assert compared("v1", "bench/other.py") == 2, "the commit has no such script"
    assert "BASE v1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("nope", "v1", "bench/script.py"), 2, "BASE is 'nope', which is neither a file nor a commit of"),
        (("v1", "v6", "bench/script.py"), 2, "HEAD v6 ("),
        (("v1", "v2"), 2, "no SCRIPT for two commits"),
        pytest.param(("v4", "v5", "bench/script.py"), 3, "bogus", marks=pytest.mark.long),
        pytest.param(
            ("v4", "v1", "bench/script.py"), 2, "launched nothing on the emulated device", marks=pytest.mark.long
        ),
    ],
)
def test_errors(
    there: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, said: str
) -> None:
    assert compared(*arguments) == code
    assert said in capsys.readouterr().err


def test_a_script_outside_of_a_repository(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "script.py").write_text("")
    assert compared("HEAD", "HEAD", str(tmp_path / "script.py")) == 2
    assert "is in no git repository" in capsys.readouterr().err


@pytest.mark.long
def test_a_script_that_compares_results_is_told_why_it_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("old.py", "new.py"):
        (tmp_path / name).write_text("raise AssertionError('not close')\n")
    assert compared(str(tmp_path / "old.py"), str(tmp_path / "new.py")) == 3
    assert "leave comparisons of results out of the script" in capsys.readouterr().err


def test_a_check_that_fails_after_the_last_launch_is_no_obstacle(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Launches compute nothing under a clock, so every script that checks its results fails."""
    ptx = kernel("work", ".param .u64 x", ".reg .b64 %rd<2>; ld.param.b64 %rd1, [x]; st.global.b32 [%rd1], 7; ret;")
    for name, check in (("old.py", "assert x[0] == 8"), ("new.py", "raise SystemExit('wrong')")):
        launch = f"x = np.zeros(4, np.int32)\nemulator.launch({ptx!r}, None, [x], block=32)\n"
        (tmp_path / name).write_text(f"import numpy as np, emulator\n{launch}{check}\n")
    assert compared(str(tmp_path / "old.py"), str(tmp_path / "new.py")) == 0
    said = capsys.readouterr()
    assert "(the same PTX)" in said.out and said.err.count("failed after its launches, which are compared") == 2


def test_launches_in_order_or_by_name() -> None:
    assert pairs(["a", "b"], ["c", "d"]) == [(0, 0), (1, 1)], "a kernel may have another name in the other version"
    assert pairs(["a", "b"], ["x", "a", "b"]) == [(0, 1), (1, 2)]
    assert pairs(["a"], ["b", "c"]) == []


def test_modules_of_the_working_tree_are_found_but_for_the_emulator() -> None:
    """The emulator is the same for both versions, also in the repository that holds it."""
    found = of_working_tree(Path(__file__).parents[2])
    assert "tests.browser" in found and not any(name.startswith("emulator") for name in found)


def role(warps: list[int], **waits: float) -> dict[str, object]:
    found = [{"what": what, "cycles": cycles, "source": f"k.py:{len(what)} in k"} for what, cycles in waits.items()]
    return {"warps": warps, "running": 10.0, "cycles": 100.0, "waits": found}


def test_roles_are_matched_by_their_warps() -> None:
    base = [role([0, 1, 2, 3], full=20.0), role([4], empty=5.0)]
    head = [role([5], empty=5.0), role([0, 1, 2, 3, 4], full=30.0, done=1.0)]
    first, second, third = role_changes(base, head)
    assert first.name == "warps 0 to 3 -> warps 0 to 4"
    assert [(each.name, each.base, each.head) for each in first.waits] == [
        ("running", 10.0, 10.0), ("full", 20.0, 30.0), ("done", None, 1.0)
    ]  # fmt: skip
    assert first.waits[1].where == ("k.py:4 in k", "k.py:4 in k")
    assert (second.name, third.name) == ("warp 4 -> none", "none -> warp 5")


def test_source_lines_are_matched_by_text() -> None:
    """A line that moved, in a file of another name, is the same line."""
    base = {"a.py:3 in f": ("x = y", 5.0), "a.py:9 in f": ("x = y", 7.0), "a.py:5 in f": ("z = 1", 1.0)}
    head = {"b.py:4 in f": ("x = y", 5.0), "b.py:12 in f": ("x = y", 9.0)}
    assert [(each.name, each.base, each.head, each.where) for each in line_changes(base, head)] == [
        ("x = y", 7.0, 9.0, ("a.py:9 in f", "b.py:12 in f")),
        ("z = 1", 1.0, None, ("a.py:5 in f", "")),
        ("x = y", 5.0, 5.0, ("a.py:3 in f", "b.py:4 in f")),
    ]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (Change("", 100.0, 103.0, "cycles"), "+3, +3.0%"),
        (Change("", 0.5, 0.25, "%"), "-25 points"),
        (Change("", "TMA", "L2"), "differs"),
        (Change("", None, 4.0), "new"),
        (Change("", 4.0, None), "gone"),
        (Change("", 4.0, 4.0), "="),
    ],
)
def test_differences(change: Change, said: str) -> None:
    assert difference(change) == said


def test_rows_of_a_timeline() -> None:
    name = {"ph": "M", "pid": 1, "name": "thread_name"}
    span = {"ph": "X", "pid": 1, "tid": 1000}
    events = [
        name | {"tid": 1000, "args": {"name": "warp 0"}},
        span | {"name": "runs", "ts": 0, "dur": 10},
        span | {"name": "waits for full", "ts": 10, "dur": 20},
        span | {"name": "runs", "ts": 2000, "dur": 10},
        span | {"pid": 2, "name": "runs", "ts": 0, "dur": 10},
    ]
    assert list(timeline(events)) == [
        ("warp 0", {"runs": [(0, 10), (2000, 2010)], "waits": [(10, 30)]}),
        ("full", {"barrier": [(10, 30)]}),
    ]


@pytest.mark.browser
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_the_page_in_a_browser(commits: Compared, opened: Browser, width: int, dark: bool) -> None:
    opened.look(width, dark)
    opened.open(commits.page)
    assert opened.errors == []
    assert opened.ask("document.documentElement.scrollWidth <= innerWidth"), "the page is wider than the screen"
    assert opened.ask("performance.getEntriesByType('resource').length") == 0
    height = opened.ask("document.querySelector('.pair svg').getBoundingClientRect().height")
    assert height and opened.ask("document.querySelectorAll('.pair path').length") >= 4
    background = "getComputedStyle(document.body).backgroundColor"
    assert (opened.ask(background) == "rgb(255, 255, 255)") is not dark
