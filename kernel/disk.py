"""Compiled configurations on disk, so that a process starts without compiling. The key has the digest of all sources.

One process compiles a configuration, others wait for it. Entries are written atomically. The oldest are
evicted.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import json
import os
import platform
import sys
import tempfile
import zipfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import cutlass.cute as cute

MOST = 512  # entries, each about 0.5 MB
SYMBOL = "fmha"  # of the function in an entry
PARTS = "host.o", "kernel.ptx", "kernel.cubin", "facts.json"
PACKAGES = "nvidia-cutlass-dsl", "apache-tvm-ffi"


def default_folder() -> Path:
    """Return the folder of this user's caches."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "dsv4_attention"


@functools.cache
def environment() -> str:
    """Return the digest of what compiles: the files of this package, versions, and the processor of the host code."""
    folder, digest = Path(__file__).parent, hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        body = path.read_bytes()
        digest.update(f"{path.relative_to(folder)} {len(body)}\n".encode() + body)
    processor = [each for each in Path("/proc/cpuinfo").read_text().splitlines() if each.startswith(("model", "flags"))]
    settings = sorted(each for each in os.environ.items() if each[0].startswith("CUTE_") and "DUMP" not in each[0])
    made_of = [sys.version, [version(each) for each in PACKAGES], platform.machine(), processor[:4], settings]
    return hashlib.sha256(digest.digest() + json.dumps(made_of).encode()).hexdigest()


class Disk:
    """The entries in a folder. most: the limit of their number."""

    def __init__(self, folder: Path, most: int = MOST) -> None:
        self.folder, self.most = folder, most

    def get(self, key: str, make: Callable[[], tuple[Any, str, bytes, Any]]) -> tuple[Any, str, bytes, Any]:
        """Return function, PTX, cubin and other facts of a key: from disk, or made and written there."""
        name = hashlib.sha256(f"{environment()} {key}".encode()).hexdigest()
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / f"{name}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            path = self.folder / f"{name}.zip"
            if (found := self._read(path)) is None:
                found = make()
                self._write(path, *found)
        return found

    def _read(self, path: Path) -> tuple[Any, str, bytes, Any] | None:
        """Return an entry, None if there is none or if it is damaged."""
        try:
            with zipfile.ZipFile(path) as entry, tempfile.TemporaryDirectory() as scratch:
                host, ptx, cubin, facts = (entry.read(each) for each in PARTS)
                (held := Path(scratch, "host.o")).write_bytes(host)
                function = getattr(cute.runtime.load_module(str(held), enable_tvm_ffi=True), SYMBOL)
            os.utime(path)
        except (OSError, zipfile.BadZipFile, KeyError, RuntimeError, AttributeError):
            return None
        return function, ptx.decode(), cubin, json.loads(facts)

    def _write(self, path: Path, function: Any, ptx: str, cubin: bytes, facts: Any) -> None:
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            host, whole = Path(scratch, "host.o"), Path(scratch, "entry")
            function.export_to_c(str(host), SYMBOL)
            with zipfile.ZipFile(whole, "w") as entry:
                bodies = host.read_bytes(), ptx.encode(), cubin, json.dumps(facts).encode()
                for name, body in zip(PARTS, bodies, strict=True):
                    entry.writestr(name, body)
            os.replace(whole, path)
        entries = sorted(self.folder.glob("*.zip"), key=lambda each: each.stat().st_mtime)
        for oldest in entries[: -self.most]:
            oldest.unlink(missing_ok=True)
            oldest.with_suffix(".lock").unlink(missing_ok=True)
