"""The cache of compiled kernels of a work folder. Only supervisors write to it, and only what accepted runs compiled.

The processes of a candidate write to a folder of their commit, `compiled/<commit>`. After an ACCEPT, when none of them
is left, the supervisor copies the entries of this run to `kernels/<source>`. It computes the name itself, from the
blobs of kernel/ in the commit, so no candidate can leave an entry for the sources of another. Each entry has a file
with its provenance, and an entry that differs from its provenance is removed before it is read.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.host.files import digest, last_used, remove, write_atomically
from harness.host.job import Workplace
from harness.host.journal import now
from harness.host.repository import TreeEntry
from harness.host.subject import Subject

SOURCES = "kernel/"
ENTRY = re.compile(r"[0-9a-f]{64}")
PROVENANCE = ".json"
MAX_ENTRY_BYTES = 64 << 20
#: The most sources whose entries are kept; each has up to 60 entries of 0.5 MB.
MOST_SOURCES = 12
LEFT_FOR_S = 86400.0


@dataclass(frozen=True)
class KernelCache:
    """The entries of one commit, whose files are `entries`, in a work folder."""

    place: Workplace
    subject: Subject
    entries: Sequence[TreeEntry]

    @property
    def source(self) -> str:
        """The digest of path, mode and blob of every file of the kernel."""
        rows = sorted(f"{e.path}\0{e.mode}\0{e.blob}\n" for e in self.entries if e.path.startswith(SOURCES))
        return hashlib.sha256("".join(rows).encode("utf-8", "surrogateescape")).hexdigest()

    @property
    def read_from(self) -> Path:
        """The folder of entries that accepted runs with these sources left."""
        return self.place.kernels / self.source

    @property
    def written_to(self) -> Path:
        """The folder to which the processes of this commit write."""
        return self.place.compiled / self.subject.commit

    def prepare(self) -> None:
        """Remove entries that differ from their provenance, and folders of other commits that were left behind."""
        self.written_to.mkdir(parents=True, exist_ok=True)
        for folder in self.place.compiled.iterdir():
            with suppress(OSError):
                if time.time() - folder.stat().st_mtime > LEFT_FOR_S and folder != self.written_to:
                    remove(folder)
        for path in self.read_from.glob("*") if self.read_from.exists() else ():
            if path.suffix != PROVENANCE and not self._is_sound(path):
                path.unlink(missing_ok=True)

    def _is_sound(self, path: Path) -> bool:
        with suppress(OSError, ValueError, KeyError, TypeError):
            said = json.loads(path.with_name(path.name + PROVENANCE).read_bytes())
            return bool(said["source"] == self.source and said["sha256"] == digest(path))
        return False

    def take(self, keys: Collection[str]) -> int:
        """Copy the commit's entries with these names into the cache, after an ACCEPT. Return how many there were.

        keys: those of the run. Others may be of a run of the same commit that still records: its second process must
        compile them itself.
        """
        taken = 0
        for path in sorted(self.written_to.glob("*")):
            if path.name not in keys or not ENTRY.fullmatch(path.name) or path.is_symlink() or not path.is_file():
                continue
            if path.stat().st_size > MAX_ENTRY_BYTES or (self.read_from / path.name).exists():
                continue
            self.read_from.mkdir(parents=True, exist_ok=True)
            data = path.read_bytes()
            about = {"run": self.subject.run, "commit": self.subject.commit, "user": self.subject.user, "at": now()}
            said = about | {"source": self.source, "sha256": hashlib.sha256(data).hexdigest()}
            write_atomically(self.read_from / (path.name + PROVENANCE), json.dumps(said, indent=1).encode())
            write_atomically(self.read_from / path.name, data)
            taken += 1
        for folder in sorted(self.place.kernels.glob("*"), key=last_used)[:-MOST_SOURCES]:
            shutil.rmtree(folder, ignore_errors=True)
        return taken
