"""Links to targets, which run commands there. Output is limited in size, and in time without output."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

from remote.errors import LinkLost, Refused, Untrusted

CHUNK = 1 << 16
MAX_LINE_BYTES = 1 << 16
QUICK_S = 60.0
#: A run prints something every second. A link that is silent for this long counts as broken.
SILENCE_S = 12.0
LOOK_S = 2.0


class Stream(Protocol):
    """A command that runs on the target."""

    def send(self, data: bytes) -> None:
        """Write to its standard input. Raises LinkLost."""

    def end_input(self) -> None:
        """Close its standard input."""

    def read(self, timeout_s: float) -> bytes:
        """Return some of its standard output, b"" at the end. Raises TimeoutError, or LinkLost."""

    def exit_code(self) -> int:
        """Return its exit code, after the end of its output. Raises LinkLost if the link broke before."""

    def errors(self) -> str:
        """Return the end of its standard error so far."""

    def close(self) -> None:
        """Stop reading from it; the command may go on."""


class Link(Protocol):
    """An open connection to a target."""

    def open(self, argv: Sequence[str], cwd: str | None = None) -> Stream:
        """Start a command. Raises LinkLost."""

    def close(self) -> None:
        """Close the connection; detached processes there go on."""


@dataclass(frozen=True)
class Reply:
    """The output of a command, and its exit code."""

    code: int
    out: bytes
    errors: str


def run(
    link: Link,
    argv: Sequence[str],
    stdin: bytes = b"",
    cwd: str | None = None,
    most: int = 1 << 20,
    timeout_s: float = QUICK_S,
) -> Reply:
    """Run a command to its end. Raises LinkLost (broken, or not done in `timeout_s`) or Untrusted (too much output)."""
    deadline = time.monotonic() + timeout_s
    stream = link.open(argv, cwd)
    try:
        stream.send(stdin)
        stream.end_input()
        out = b""
        while chunk := stream.read(max(0.01, deadline - time.monotonic())):
            out += chunk
            if len(out) > most:
                raise Untrusted(f"{argv[0]} printed more than {most} bytes")
        return Reply(stream.exit_code(), out, stream.errors())
    except TimeoutError as error:
        raise LinkLost(f"{argv[0]} there did not end in {timeout_s:g} s") from error
    finally:
        stream.close()


def bounded(stream: Stream, most: int, silence_s: float) -> Iterator[bytes]:
    """Yield the output of a stream in chunks. Raises LinkLost after silence, Untrusted after `most` bytes."""
    seen = 0
    while True:
        try:
            chunk = stream.read(silence_s)
        except TimeoutError as error:
            raise LinkLost(f"no output for {silence_s:g} s") from error
        if not chunk:
            return
        seen += len(chunk)
        if seen > most:
            raise Untrusted(f"more than {most} bytes of output")
        yield chunk


def lines(stream: Stream, silence_s: float) -> Iterator[bytes]:
    """Yield the lines of a stream that may run for hours. Raises Untrusted if a line or the rate is too large."""
    rest = b""
    started = time.monotonic()
    seen = 0
    for chunk in bounded(stream, 1 << 40, silence_s):
        seen += len(chunk)
        if seen > (1 << 20) + MAX_LINE_BYTES * (time.monotonic() - started):
            raise Untrusted("the run prints too much")
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
        if len(rest) > MAX_LINE_BYTES:
            raise Untrusted(f"a line of more than {MAX_LINE_BYTES} bytes")


def _patiently(stream: Stream, moved: Callable[[], float]) -> bytes:
    """Read, and wait while data is being sent. Raises TimeoutError after QUICK_S without data in either direction."""
    started = time.monotonic()
    while True:
        try:
            return stream.read(LOOK_S)
        except TimeoutError:
            if time.monotonic() - max(started, moved()) > QUICK_S:
                raise


@contextmanager
def git_service(link: Link, service: str, repository: str) -> Iterator[tuple[str, list[int]]]:
    """Yield a URL by which the local git reaches `repository` on the target, and the file descriptors to pass to git.

    `service` is "receive-pack" to push, "upload-pack" to fetch. The body runs git. Raises LinkLost after the body if
    the link broke.
    """
    if shutil.which("git") is None:
        raise Refused("git is not installed here")
    stream = link.open(["git", service, repository])
    ours, theirs = socket.socketpair()
    broken: list[LinkLost] = []
    moved = time.monotonic()

    def upwards() -> None:
        nonlocal moved
        with suppress(OSError, LinkLost):
            while data := ours.recv(CHUNK):
                stream.send(data)
                moved = time.monotonic()
        with suppress(LinkLost):
            stream.end_input()

    def downwards() -> None:
        try:
            while data := _patiently(stream, lambda: moved):
                ours.sendall(data)
            stream.exit_code()
        except (LinkLost, TimeoutError) as error:
            broken.append(LinkLost(str(error) or f"git {service} there went silent"))
        except OSError:
            pass
        finally:
            with suppress(OSError):
                ours.shutdown(socket.SHUT_RDWR)

    threads = [threading.Thread(target=pump, daemon=True) for pump in (upwards, downwards)]
    for thread in threads:
        thread.start()
    try:
        yield f"fd::{theirs.fileno()}", [theirs.fileno()]
    except Exception:
        theirs.close()
        threads[1].join(1.0)
        if broken:
            raise broken[0] from None
        raise
    finally:
        with suppress(OSError):
            theirs.close()
        stream.close()
        for thread in threads:
            thread.join(5.0)
        ours.close()
