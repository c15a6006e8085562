"""Detached supervisors, over the link to this machine."""

import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from remote.errors import Refused
from remote.local import Local
from remote.target import Run

BEGIN = "import pathlib, time; pathlib.Path('begun').touch(); time.sleep(0.5); pathlib.Path('done').touch()"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return a run whose supervisor reports its start, and its end a while later."""
    python = [sys.executable, "-c"]
    paths = {"log": str(tmp_path / "log"), "begun": str(tmp_path / "begun")}
    says = "import sys; print('no object'); print('[]'); print('{\"offset\": ' + sys.argv[1] + '}')"
    cancels = "import pathlib, sys; pathlib.Path('cancel').write_text(sys.argv[1])"
    here, begins = str(tmp_path), [*python, BEGIN]
    return Run("a run", here, here, begins, follow=[*python, says], cancel=[*python, cancels], **paths)


@pytest.fixture
def target(tmp_path: Path) -> Local:
    return Local("sim", str(tmp_path))


def test_outlives_the_link(target: Local, run: Run, tmp_path: Path) -> None:
    link = target.connect()
    target.submit(link, [run])
    assert (tmp_path / "begun").exists() and not (tmp_path / "done").exists()
    link.close()
    deadline = time.monotonic() + 600
    while not (tmp_path / "done").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_what_has_begun_is_not_started_again(target: Local, run: Run, tmp_path: Path) -> None:
    (tmp_path / "begun").touch()
    target.submit(target.connect(), [replace(run, supervise=["/nowhere/python"])])
    assert not (tmp_path / "log").exists()


def test_supervisor_that_does_not_start_is_refused_in_its_own_words(target: Local, run: Run) -> None:
    dies = replace(run, supervise=[sys.executable, "-c", "raise SystemExit('no such module')"])
    with pytest.raises(Refused, match="sim: the supervisor did not start: no such module"):
        target.submit(target.connect(), [dies])


def test_status_is_what_it_prints_from_an_offset_on(target: Local, run: Run) -> None:
    assert list(target.status(target.connect(), run, 7)) == [{"offset": 7}]
    gone = replace(run, follow=[sys.executable, "-c", "raise SystemExit('not here')"])
    with pytest.raises(Refused, match="sim: not here"):
        list(target.status(target.connect(), gone, 0))


def test_cancel_says_on_whose_behalf(target: Local, run: Run, tmp_path: Path) -> None:
    target.cancel(target.connect(), run, "ada")
    assert (tmp_path / "cancel").read_text() == "ada"
    gone = replace(run, cancel=[sys.executable, "-c", "raise SystemExit(1)"])
    with pytest.raises(Refused, match="there is no run a run"):
        target.cancel(target.connect(), gone, "ada")
