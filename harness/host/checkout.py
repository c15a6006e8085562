"""Fresh checkouts of one commit, and the check that nothing in them changed: every file is hashed, no index is used."""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from harness.host.files import remove
from harness.host.repository import Repository, TreeEntry

MODES = {"100644": 0, "100755": stat.S_IXUSR}


@dataclass(frozen=True, eq=False)
class Checkout:
    """A detached worktree of `repository` in `folder`, with the files `entries` of `commit`."""

    repository: Repository
    commit: str
    folder: Path
    entries: tuple[TreeEntry, ...]

    def make(self) -> None:
        """Check the commit out into the folder, which must not exist. Raises GitError."""
        options = ("--quiet", "--force", "--detach", "--no-checkout")
        with self._alone():
            self.repository.git("worktree", "add", *options, str(self.folder), self.commit)
        replace(self.repository, path=self.folder).git("reset", "--hard", "--quiet", "--no-recurse-submodules")

    def differences(self) -> Iterator[str]:
        """Yield a sentence for each file that was changed, is missing, or was added."""
        wanted = {entry.path: entry for entry in self.entries}
        for path, file in _files(str(self.folder)):
            entry = wanted.pop(path, None)
            if entry is None:
                yield f"{path} is not in the commit"
            elif not _same(file, entry):
                yield f"{path} differs from the commit"
        yield from (f"{path} is missing" for path in wanted)

    def remove(self) -> None:
        """Remove this checkout only. Pruning could remove those of other nodes that are not visible here yet."""
        with self._alone():
            self.repository.succeeds("worktree", "remove", "--force", str(self.folder))
        remove(self.folder)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other checkouts from being listed: git fails on a worktree that another process is just adding."""
        with open(self.repository.path / "worktrees.lock", "a") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            yield


def planned(repository: Repository, commit: str, folder: Path) -> Checkout:
    """Return the checkout of `commit` in `folder`, which is not made yet. Raises GitError."""
    return Checkout(repository, commit, folder, tuple(repository.tree(commit)))


def _files(root: str) -> Iterator[tuple[str, str]]:
    """Yield the path, from the root of a checkout and in full, of each of its files, but for the worktree's .git."""
    folders = [("", root)]
    while folders:
        prefix, folder = folders.pop()
        with suppress(OSError), os.scandir(folder) as entries:
            for each in entries:
                if each.is_dir(follow_symlinks=False):
                    folders.append((f"{prefix}{each.name}/", each.path))
                elif prefix or each.name != ".git":
                    yield prefix + each.name, each.path


def blob_id(data: bytes, like: str) -> str:
    """Return git's id of these bytes, by the hash function of the id `like`."""
    digest = hashlib.sha1 if len(like) == 40 else hashlib.sha256
    return digest(b"blob %d\0" % len(data) + data).hexdigest()


def _same(file: str, entry: TreeEntry) -> bool:
    """Return True if the file has the mode and the bytes of the entry."""
    try:
        status = os.lstat(file)
        if entry.mode == "120000":
            return stat.S_ISLNK(status.st_mode) and blob_id(os.readlink(os.fsencode(file)), entry.blob) == entry.blob
        if not stat.S_ISREG(status.st_mode) or (status.st_mode & stat.S_IXUSR) != MODES.get(entry.mode):
            return False
        with open(file, "rb", buffering=0) as stream:
            return blob_id(stream.read(), entry.blob) == entry.blob
    except OSError:
        return False
