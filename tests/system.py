"""External needs of tests: system programs, and a copy of the project to run in."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]

# : Marker to the programs of which it needs one, and the Debian package that provides one.
NEEDS = {
    "compiler": (("cc", "gcc"), "g++"),
    "browser": (("chromium", "chromium-browser", "google-chrome"), "chromium"),
    "slurm": (("slurmctld", "/usr/sbin/slurmctld"), "slurmctld slurmd slurm-client munge"),
    "sshd": (("sshd", "/usr/sbin/sshd"), "openssh-server"),
}


def program(marker: str) -> str | None:
    """Return the path of a program that satisfies `marker`, or None."""
    return next(filter(None, map(shutil.which, NEEDS[marker][0])), None)


@dataclass(frozen=True)
class Checkout:
    """A copy of the working tree, committed in its own repository. A run in it changes nothing here."""

    path: Path

    def git(self, *arguments: str) -> str:
        command = ["git", "-C", str(self.path), "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=True, timeout=600)
        return done.stdout

    def copied(self, path: Path) -> "Checkout":
        """Copy it without its folders of runs, which a supervisor may be removing."""
        shutil.copytree(self.path, path, symlinks=True, ignore=shutil.ignore_patterns("runs"))
        return Checkout(path)

    def replace(self, path: str, old: str, new: str) -> None:
        """Replace text in a file. Raises AssertionError unless `old` occurs in it exactly once."""
        file = self.path / path
        text = file.read_text()
        assert text.count(old) == 1, f"{path} has {text.count(old)} times {old!r}"
        file.write_text(text.replace(old, new))


def make_checkout(path: Path) -> Checkout:
    """Copy and commit every file that git tracks or does not ignore."""
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
