"""What tests need from outside of themselves: programs of the system, and a copy of the project to run in."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]

#: A marker, the programs any one of which satisfies it, and the Debian package that brings one.
NEEDS = {
    "compiler": (("cc", "gcc"), "g++"),
    "browser": (("chromium", "chromium-browser", "google-chrome"), "chromium"),
    "slurm": (("slurmctld", "/usr/sbin/slurmctld"), "slurmctld slurmd slurm-client munge"),
    "sshd": (("sshd", "/usr/sbin/sshd"), "openssh-server"),
}


def program(marker: str) -> str | None:
    """The path of a program that satisfies `marker`, or None."""
    return next(filter(None, map(shutil.which, NEEDS[marker][0])), None)


@dataclass(frozen=True)
class Checkout:
    """A copy of the working tree, committed in a repository of its own: a run in it touches nothing here."""

    path: Path

    def git(self, *arguments: str) -> str:
        command = ["git", "-C", str(self.path), "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=True, timeout=60)
        return done.stdout

    def replace(self, path: str, old: str, new: str) -> None:
        """Edit a file. Raises AssertionError unless `old` stands in it exactly once: the edit would miss its aim."""
        file = self.path / path
        text = file.read_text()
        assert text.count(old) == 1, f"{path} has {text.count(old)} times {old!r}"
        file.write_text(text.replace(old, new))


def make_checkout(path: Path) -> Checkout:
    """Copy every file that git knows or would take, and commit them."""
    listed = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    for name in subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split("\0"):
        if name and (ROOT / name).is_file():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, path / name)
    checkout = Checkout(path)
    checkout.git("init", "--quiet", "--initial-branch=main")
    checkout.git("add", "--all")
    checkout.git("commit", "--quiet", "--message", "A copy")
    return checkout
