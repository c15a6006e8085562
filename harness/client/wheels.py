"""Wheels of the packages of requirements.lock, carried over the link to a target that reaches no package index."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import IO, Any, cast

from remote.errors import Refused, TargetError
from remote.link import Link, Stream
from remote.target import Target

UNPACK = "import sys, tarfile; tarfile.open(fileobj=sys.stdin.buffer, mode='r|').extractall(sys.argv[1])"
#: The oldest glibc, by its minor version, that wheels name.
OLDEST_GLIBC = 5


def download(lock: Path, folder: Path, there: dict[str, Any], say: Callable[[str], object]) -> None:
    """Download the wheels that fit a target into `folder`, by pip with its settings on this machine.

    `there` is the answer of `needs` in harness/host/provision.py. Raises TargetError with pip's reason.
    """
    machine, version = str(there.get("machine")), str(there.get("python"))
    glibc = re.fullmatch(r"glibc 2\.(\d+)", str(there.get("glibc")))
    if glibc is None or not re.fullmatch(r"3\.\d+", version):
        raise TargetError(f"no wheels are known for Python {version} with {there.get('glibc')} there")
    if (platform.system(), platform.machine()) != ("Linux", machine):
        raise TargetError(f"pip chooses packages for the machine that it runs on: WHEELS needs Linux on {machine} here")
    fits = [f"manylinux_2_{minor}_{machine}" for minor in range(int(glibc[1]), OLDEST_GLIBC - 1, -1)]
    options = [f"--platform={each}" for each in (*fits, f"manylinux2014_{machine}", f"linux_{machine}")]
    options += ["--only-binary=:all:", f"--python-version={version}", "--progress-bar=off", "--no-color"]
    command = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), "--requirement", str(lock)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    last = ""
    for line in process.stdout:
        last = line.strip() or last
        say(last)
    if process.wait() != 0:
        raise TargetError(f"pip download here: {last}")


def carry(target: Target, link: Link, folder: Path, there: dict[str, Any], say: Callable[[str], object]) -> None:
    """Copy the wheels of `folder` that a target lacks into its work folder. Raises LinkLost or Refused."""
    sizes = there.get("sizes")
    known = sizes if isinstance(sizes, dict) else {}
    missing = [each for each in sorted(folder.glob("*.whl")) if known.get(each.name) != each.stat().st_size]
    stream = link.open([target.base_python or "python3", "-Ic", UNPACK, str(there.get("wheels"))])
    with closing(stream):
        with tarfile.open(fileobj=cast(IO[bytes], _Writer(stream)), mode="w|") as archive:
            for wheel in missing:
                say(f"copies {wheel.name}, {wheel.stat().st_size >> 20} MiB")
                archive.add(wheel, wheel.name)
        stream.end_input()
        if stream.exit_code() != 0:
            raise Refused(f"{target.name}: the wheels were not copied: {stream.errors()[-300:].strip()}")


class _Writer:
    """The input of a command on the target, as the file that tarfile writes."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def write(self, data: bytes) -> int:
        self._stream.send(data)
        return len(data)
