"""Atomic writing of files, and reading of files that a candidate may have left: it may put anything in their place."""

import errno
import hashlib
import os
import re
import stat
import subprocess
import tempfile
from io import BufferedReader
from pathlib import Path

#: A part of the path of a result: without control characters, dots in front, and letters that JSON writes as six bytes.
PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]{0,120}")
LONGEST_PATH = 240
#: Error numbers of a full disk.
FULL = (errno.ENOSPC, errno.EDQUOT)


def is_plain(path: str) -> bool:
    """Return True if `path` may name a result: few plain parts, joined by slashes."""
    return len(path) <= LONGEST_PATH and all(map(PLAIN_NAME.fullmatch, path.split("/")))


def open_plain(path: Path) -> BufferedReader:
    """Open a plain file to read. Raises OSError for anything else: a pipe would block its reader for ever."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a plain file", str(path))
    return os.fdopen(handle, "rb")


def digest(path: Path) -> str:
    """Return the SHA-256 of a plain file. Raises OSError."""
    with open_plain(path) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def last_used(path: Path) -> float:
    """Return the time at which a file or folder was last changed; 0 if another process removed it."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def remove(folder: Path) -> None:
    """Remove a folder, however deep: `shutil.rmtree` gives up where a candidate nested a thousand folders."""
    subprocess.run(["rm", "-rf", "--", str(folder)], capture_output=True, check=False)


def write_atomically(path: Path, data: bytes) -> None:
    """Replace the file `path` by `data`, through a temporary file, fsync and rename: a reader never sees a part of it.

    If it raises OSError, the old file is unchanged.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
