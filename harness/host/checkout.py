"""Fresh checkouts of one commit, and the check that nothing in them changed: every file is hashed, no index is used."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.host.files import remove
from harness.host.repository import Repository, TreeEntry

MODES = {"100644": 0, "100755": stat.S_IXUSR}


@dataclass(frozen=True)
class Checkout:
    """A detached worktree of `repository` in `folder`, with the files `entries` of `commit`."""

    repository: Repository
    commit: str
    folder: Path
    entries: tuple[TreeEntry, ...]

    def differences(self) -> Iterator[str]:
        """Yield a sentence for each file that was changed, is missing, or was added."""
        wanted = {entry.path: entry for entry in self.entries}
        for path in self._files():
            entry = wanted.pop(path, None)
            if entry is None:
                yield f"{path} is not in the commit"
            elif not _same(self.folder / path, entry):
                yield f"{path} differs from the commit"
        yield from (f"{path} is missing" for path in wanted)

    def remove(self) -> None:
        """Remove this checkout only. Pruning could remove those of other nodes that are not visible here yet."""
        self.repository.succeeds("worktree", "remove", "--force", str(self.folder))
        remove(self.folder)

    def _files(self) -> Iterator[str]:
        for folder, folders, files in os.walk(self.folder):
            links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
            for name in (*files, *links):
                path = os.path.relpath(os.path.join(folder, name), self.folder)
                if path != ".git":
                    yield path


def fresh(repository: Repository, commit: str, folder: Path) -> Checkout:
    """Check `commit` out into `folder`, which must not exist. Raises GitError."""
    repository.git("worktree", "add", "--quiet", "--force", "--detach", str(folder), commit)
    return Checkout(repository, commit, folder, tuple(repository.tree(commit)))


def blob_id(data: bytes, like: str) -> str:
    """Return git's id of these bytes, by the hash function of the id `like`."""
    digest = hashlib.sha1 if len(like) == 40 else hashlib.sha256
    return digest(b"blob %d\0" % len(data) + data).hexdigest()


def _same(path: Path, entry: TreeEntry) -> bool:
    """Return True if the file has the mode and the bytes of the entry."""
    try:
        status = path.lstat()
        if entry.mode == "120000":
            return stat.S_ISLNK(status.st_mode) and blob_id(os.readlink(os.fsencode(path)), entry.blob) == entry.blob
        if not stat.S_ISREG(status.st_mode) or (status.st_mode & stat.S_IXUSR) != MODES.get(entry.mode):
            return False
        return blob_id(path.read_bytes(), entry.blob) == entry.blob
    except OSError:
        return False
