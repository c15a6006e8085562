"""Take the kernel to verdicts over SSH where client, server and GPU are one machine, and record what each step said.

`python -m lab.gpu_host FOLDER [--workdir ENV_PARENT] [--all]` clones this repository into FOLDER, starts an
OpenSSH server there, and makes the clone's target `gpu` point to it. Then it runs the steps of
docs/howto/b200-over-ssh.md: trust, provision, doctor, a first milestone, and with `--all` the times of `make perf` and
all milestones. Exit codes and times are in FOLDER/steps.json, the output of each step in a file of that folder.

The clone's lock pins the versions that this interpreter has, because such a machine may reach no registry.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from harness.paths import ROOT
from remote.loopback import Sshd

ALIAS: Final = "gpu-host"
TARGET: Final = "gpu"
LOCK: Final = "requirements.lock"
IDENTITY: Final = ("-c", "user.name=lab", "-c", "user.email=lab@localhost")
STEPS: Final = (
    (("trust",), 30.0),
    (("provision",), 120.0),
    (("doctor",), 60.0),
    (("stage", "D1.1"), 150.0),
    (("perf", ""), 560.0),
    (("stages",), 1800.0),
)
"""The commands of `python -m harness`, and the seconds that each may take."""


@dataclass(frozen=True)
class Step:
    """One command: its exit code (None: stopped at its deadline), seconds, and last lines of output."""

    name: str
    code: int | None
    seconds: float
    said: list[str]


@dataclass
class Machine:
    """A clone and a server in `folder`, and the steps that were taken."""

    folder: Path
    work: Path
    arch: str
    device: str
    client: str = sys.executable
    steps: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clone, self.home = self.folder / "clone", self.folder / "home"
        kept = [f"{name}={os.environ[name]}" for name in ("PATH", "LD_LIBRARY_PATH") if os.environ.get(name)]
        self.sshd = Sshd(made(self.folder / "sshd"), f"SetEnv {' '.join(kept)}\n")
        (made(self.home / ".ssh") / "config").write_text(self.sshd.client_config(ALIAS))

    def prepare(self) -> None:
        """Clone the repository, pin the installed versions, name the target and start the server."""
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(self.clone)], check=True)
        self.git("remote", "remove", "origin")  # whose `accepted` is of another lock
        lock = self.clone / LOCK
        lock.write_text(installed(lock.read_text()))
        (self.clone / "remote" / "targets.toml").write_text(
            f'default = "{TARGET}"\n[targets.{TARGET}]\nkind = "ssh"\nhost = "{ALIAS}"\nworkdir = "{self.work}"\n'
            f'arch = "{self.arch}"\ndevice = "{self.device}"\ndisk_mb = 512\n'
        )
        self.git("commit", "--quiet", "--allow-empty", "--all", "--message", "Pin the versions of this machine")
        self.sshd.start()

    def git(self, *arguments: str) -> None:
        """Run git in the clone."""
        subprocess.run(["git", "-C", str(self.clone), *IDENTITY, *arguments], check=True)

    def take(self, *command: str, deadline_s: float) -> Step:
        """Run a command of the harness in the clone to its end, or kill it at its deadline, and write the steps so far.

        Its output goes to a file that is named after it.
        """
        log = self.folder / f"{len(self.steps)}-{'-'.join(command)}.log"
        began, code = time.monotonic(), None
        with log.open("wb") as output, suppress(subprocess.TimeoutExpired):
            code = subprocess.run(
                [self.client, "-m", "harness", *command, "--target", TARGET],
                cwd=self.clone, env=os.environ | {"HOME": str(self.home), "COLUMNS": "160", "PYTHONPATH": ""},
                input=b"yes\n", stdout=output, stderr=subprocess.STDOUT, timeout=deadline_s, check=False,
            ).returncode  # fmt: skip
        seconds = time.monotonic() - began
        said = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        self.steps.append(Step(" ".join(command), code, round(seconds, 1), said[-12:]))
        (self.folder / "steps.json").write_text(json.dumps([asdict(each) for each in self.steps], indent=1))
        print(f"{self.steps[-1].name}: exit {code} after {seconds:.1f} s: {said[-1] if said else ''}", flush=True)
        return self.steps[-1]

    def close(self) -> None:
        """Stop the server."""
        self.sshd.close()


def made(folder: Path) -> Path:
    """Make a folder that only this user can read."""
    folder.mkdir(parents=True, mode=0o700)
    return folder


def installed(lock: str) -> str:
    """Return a lock with the versions that this interpreter has, without packages that it lacks."""
    kept = []
    for line in lock.splitlines():
        name, pinned, _ = line.partition("==")
        if not pinned or line.startswith("#"):
            kept.append(line)
            continue
        try:
            kept.append(f"{name}=={version(name).partition('+')[0]}")
        except PackageNotFoundError:
            continue
    return "\n".join([*kept, ""])


def main() -> int:
    """Run the command line that the module's docstring describes. Return 1 if a step did not end with 0."""
    parser = argparse.ArgumentParser(prog="python -m lab.gpu_host", description=__doc__)
    parser.add_argument("folder", type=Path, help="a new folder for the clone and the output of each step")
    parser.add_argument(
        "--workdir",
        type=Path,
        default=Path("/tmp/fmha"),
        help="work folder of the target; it may have an env (default: %(default)s)",
    )
    parser.add_argument("--arch", default="sm_90a", help="architecture to compile for (default: %(default)s)")
    parser.add_argument(
        "--client", default=sys.executable, help="the Python that starts the run of all milestones (default: this one)"
    )
    parser.add_argument(
        "--all", action="store_true", help="also judge all milestones in one run, and time all problems"
    )
    parser.add_argument(
        "--device", default="cuda", choices=("cuda", "emulator"), help="where kernels run (default: cuda)"
    )
    args = parser.parse_args()
    folder = args.folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    machine = Machine(folder, args.workdir.resolve(), args.arch, args.device)
    try:
        machine.prepare()
        for command, deadline_s in STEPS if args.all else STEPS[:-2]:
            machine.client = args.client if command == ("stages",) else sys.executable
            if machine.take(*command, deadline_s=deadline_s).code:
                break
    finally:
        machine.close()
    return int(any(step.code for step in machine.steps))


if __name__ == "__main__":
    sys.exit(main())
