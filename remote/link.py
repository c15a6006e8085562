"""A link to a target: commands that run there as streams of bytes, bounded in size and silence."""

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
#: A run says something every second; after this long a silent link counts as broken.
SILENCE_S = 12.0
LOOK_S = 2.0


class Stream(Protocol):
    """A command that runs on the target."""

    def send(self, data: bytes) -> None:
        """Write to its standard input. Raises LinkLost."""

    def end_input(self) -> None:
        """Close its standard input."""

    def read(self, timeout_s: float) -> bytes:
        """Some of its standard output, b"" at the end. Raises TimeoutError after silence, or LinkLost."""

    def exit_code(self) -> int:
        """Its exit code, after the end of its output. Raises LinkLost where the link broke before it."""

    def errors(self) -> str:
        """The end of its standard error so far."""

    def close(self) -> None:
        """Let go of it; it may go on."""


class Link(Protocol):
    """An open way to a target."""

    def open(self, argv: Sequence[str], cwd: str | None = None) -> Stream:
        """Start a command. Raises LinkLost."""

    def close(self) -> None:
        """Close the way; what runs there goes on."""


@dataclass(frozen=True)
class Reply:
    """What a command said, and its exit code."""

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
    """Run a command to its end. Raises LinkLost (broken, or no end in `timeout_s`) or Untrusted (over `most` bytes)."""
    deadline = time.monotonic() + timeout_s
    stream = link.open(argv, cwd)
    try:
        stream.send(stdin)
        stream.end_input()
        out = b""
        while chunk := stream.read(max(0.01, deadline - time.monotonic())):
            out += chunk
            if len(out) > most:
                raise Untrusted(f"{argv[0]} said more than {most} bytes")
        return Reply(stream.exit_code(), out, stream.errors())
    except TimeoutError as error:
        raise LinkLost(f"{argv[0]} there did not end in {timeout_s:g} s") from error
    finally:
        stream.close()


def bounded(stream: Stream, most: int, silence_s: float) -> Iterator[bytes]:
    """The output of a stream, chunk by chunk. Raises LinkLost after silence, Untrusted after `most` bytes."""
    seen = 0
    while True:
        try:
            chunk = stream.read(silence_s)
        except TimeoutError as error:
            raise LinkLost(f"nothing was heard for {silence_s:g} s") from error
        if not chunk:
            return
        seen += len(chunk)
        if seen > most:
            raise Untrusted(f"more than {most} bytes came")
        yield chunk


def lines(stream: Stream, silence_s: float) -> Iterator[bytes]:
    """The lines of a stream that may go on for hours, each at most MAX_LINE_BYTES long."""
    rest = b""
    started = time.monotonic()
    seen = 0
    for chunk in bounded(stream, 1 << 40, silence_s):
        seen += len(chunk)
        if seen > (1 << 20) + MAX_LINE_BYTES * (time.monotonic() - started):
            raise Untrusted("the run says more than anybody could read")
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
        if len(rest) > MAX_LINE_BYTES:
            raise Untrusted(f"a line of more than {MAX_LINE_BYTES} bytes came")


def _patiently(stream: Stream, moved: Callable[[], float]) -> bytes:
    """Read, for as long as something moves the other way. Raises TimeoutError after QUICK_S without either."""
    started = time.monotonic()
    while True:
        try:
            return stream.read(LOOK_S)
        except TimeoutError:
            if time.monotonic() - max(started, moved()) > QUICK_S:
                raise


@contextmanager
def git_service(link: Link, service: str, repository: str) -> Iterator[tuple[str, list[int]]]:
    """A URL for the local git that reaches `repository` on the target through this link, and the fds to pass.

    `service` is "receive-pack" to push, "upload-pack" to fetch. The body runs git; raises LinkLost after it
    where the link broke.
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
