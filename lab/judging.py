"""`python -m lab.judging`: measure compiling, launching and whole runs on this machine, with their goals.

Nothing is asserted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.host.journal import one_line
from harness.host.ruling import RULING_NAME
from harness.paths import ROOT
from harness.report.record import Record, load
from remote.loopback import SSHD, Sshd, SshdError
from stages.catalog import GATE


class NotAccepted(Exception):
    """A run that was timed did not end with ACCEPT."""


def main() -> int:
    """Print the figures; return the exit code."""
    try:
        for line in measure():
            print(line, flush=True)
    except NotAccepted as error:
        print(one_line(str(error), 1000), file=sys.stderr)
        return 1
    return 0


def measure() -> Iterator[str]:
    """Time the gate of this commit on the embedded target and over SSH; yield a line for each figure.

    It runs in a clone, so nothing is accepted here. Raises NotAccepted.
    """
    with tempfile.TemporaryDirectory(prefix="fmha-lab-") as name:
        folder = Path(name)
        clone = folder / "clone"
        _time(["git", "clone", "--quiet", str(ROOT), str(clone)], folder)
        whole_s, judging_s, record = _gate(clone, "sim")
        yield _line("compile, slowest configuration", max(each.seconds for each in record.compiles), 5.0)
        yield _line("launch, slowest", max(_launches(record)), 2.0)
        yield _line(f"make stage {GATE.id}, whole", whole_s, 25.0)
        yield f"{'of that, not judging':50} {whole_s - judging_s:6.2f} s   the first time: bytecode is written"
        whole_s, judging_s, _ = _gate(clone, "sim")
        yield _line("candidate, supervision and acceptance from then on", whole_s - judging_s, 2.0)
        what = "the same through SSH, to a server on this machine"
        try:
            with loopback(clone, folder) as home:
                whole_s, judging_s, _ = _gate(clone, "loopback", HOME=home)
            yield _line(what, whole_s - judging_s, 4.0)
        except SshdError as error:
            yield f"{what:50} not measured: {error}"


def _gate(clone: Path, target: str, **env: str) -> tuple[float, float, Record]:
    """Run the hd=64 gate of `clone`. Return its seconds, those of the judging phase, and its record."""
    whole_s = _time([sys.executable, "-m", "harness", "gate", "--again", "--target", target], clone, **env)
    newest = max((clone / "results").glob(f"*/{RULING_NAME}")).parent
    seconds = json.loads((newest / RULING_NAME).read_bytes())["seconds"]
    return whole_s, seconds["record gate"] + seconds["gate"], load(newest)


@contextmanager
def loopback(clone: Path, folder: Path) -> Iterator[str]:
    """Start a server that `clone` knows as target "loopback"; yield the HOME with its settings. Raises SshdError."""
    if SSHD is None:
        raise SshdError("sshd is not installed (Debian: openssh-server)")
    for path in (folder / "sshd", folder / "home/.ssh"):
        path.mkdir(parents=True)
    server = Sshd(folder / "sshd")
    (folder / "home/.ssh/config").write_text(server.client_config("loopback"))
    (clone / "remote/known_hosts").write_text(server.known_host())
    (clone / "remote/targets.toml").write_text(
        f'default = "loopback"\n[targets.loopback]\nkind = "ssh"\nhost = "loopback"\nworkdir = "{folder}/work"\n'
        f'python = "{sys.executable}"\ndevice = "emulator"\n'
    )
    try:
        server.start()
        yield str(folder / "home")
    finally:
        server.close()


def _launches(record: Record) -> list[float]:
    return [launch.seconds for case in record.cases for launch in case.launches]


def _line(what: str, seconds: float, goal_s: float) -> str:
    return f"{what:50} {seconds:6.2f} s   goal {goal_s:g} s"


def _time(command: list[str], cwd: Path, **env: str) -> float:
    started = time.perf_counter()
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, env=os.environ | env)
    if done.returncode != 0:
        raise NotAccepted(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return time.perf_counter() - started


if __name__ == "__main__":
    sys.exit(main())
