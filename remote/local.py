"""The embedded target: this machine, with an emulated chip. Runs take the same steps as on a remote host."""

from __future__ import annotations

import os
import platform
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from remote.detached import Detached
from remote.errors import LinkLost
from remote.link import CHUNK


class LocalStream:
    """A child process, in its own session so that Ctrl-C in the terminal does not reach it."""

    def __init__(self, argv: Sequence[str], cwd: str | None) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  closed in close()
        try:
            self._process = subprocess.Popen(
                list(argv),
                cwd=cwd,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            raise LinkLost(f"{error.filename or argv[0]}: {error.strerror}") from error

    def send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        try:
            left = memoryview(data)
            while left:
                left = left[self._process.stdin.write(left) :]
        except BrokenPipeError:
            pass

    def end_input(self) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()

    def read(self, timeout_s: float) -> bytes:
        assert self._process.stdout is not None
        if not select.select([self._process.stdout], [], [], timeout_s)[0]:
            raise TimeoutError
        return os.read(self._process.stdout.fileno(), CHUNK)

    def exit_code(self) -> int:
        return self._process.wait()

    def errors(self) -> str:
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - 4096))
        return self._errors.read().decode(errors="replace")

    def close(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()


class LocalLink:
    """Runs commands on this machine."""

    def open(self, argv: Sequence[str], cwd: str | None = None) -> LocalStream:
        return LocalStream(argv, cwd)

    def close(self) -> None:
        """Do nothing, because nothing is open."""


@dataclass(frozen=True)
class Local(Detached):
    """Target of `kind = "emulator"`: an emulated device on this machine. All files are in `workdir`."""

    host: ClassVar[str] = ""
    provisionable: ClassVar[bool] = False

    name: str
    workdir: str = str(Path(__file__).parents[1] / "results/.sim")
    disk_mb: int = 256
    python: str = sys.executable
    base_python: str = ""
    device: str = "emulator"
    arch: str = "sm_100a"
    gpu: int = 0
    shared: bool = False
    sync: str = "push"

    @property
    def at_once(self) -> int:
        return len(os.sched_getaffinity(0)) if self.device == "emulator" else 1

    @property
    def why_not_from_here(self) -> str:
        if self.device != "emulator" or platform.system() == "Linux":
            return ""
        return (
            f"{self.name} needs Linux: nvidia-cutlass-dsl, which compiles for the emulated device, has no wheel for "
            f"{platform.system()}. Use a host instead: make stage D1.1 TARGET=b200"
        )

    def connect(self) -> LocalLink:
        return LocalLink()
