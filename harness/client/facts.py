"""Questions to a target, and its answers, whole or in pieces, bounded in size and silence."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from harness import host
from harness.host.journal import one_line
from remote.errors import LinkLost, Refused, Untrusted
from remote.link import Link, Stream, Target

#: Where the programs lie that are sent to a target as text.
HOST_PROGRAMS = Path(host.__file__).parent
PROBE = HOST_PROGRAMS / "probe.py"
#: How long a question may go without a word.
ASK_S = 150.0
MAX_LINE_BYTES = 1 << 16


class Facts:
    """Questions to a target, each a program sent over the link as text; nothing need be there but Python."""

    def __init__(self, target: Target, link: Link) -> None:
        self.target = target
        self.link = link

    def ask(self, verb: str, **request: object) -> dict[str, Any]:
        """The answer of `harness.host.probe`. Raises Refused or LinkLost."""
        return self.send(PROBE, {"verb": verb, **request})

    def send(
        self,
        program: Path,
        request: dict[str, Any],
        hear: Callable[[str], None] = lambda _: None,
        silence_s: float = ASK_S,
    ) -> dict[str, Any]:
        """Run a program of ours there; `hear` gets its lines but for the last, which is the answer.

        Raises Refused with its reason, LinkLost, or Untrusted.
        """
        python = self.target.python or "python3"
        stream = self.link.open([python, "-I", "-"])
        last = b""
        try:
            stream.send(f"{program.read_text()}\nmain({json.dumps(request)!r})\n".encode())
            stream.end_input()
            for line in lines(stream, silence_s):
                hear(one_line(last.decode(errors="replace")))
                last = line
            code = stream.exit_code()
            answer = json.loads(last)
        except (ValueError, RecursionError):
            answer = {"refused": f"{python} there: {one_line(stream.errors()[-300:]) or f'exit {code}'}"}
        finally:
            stream.close()
        if not isinstance(answer, dict) or "refused" in answer:
            why = answer.get("refused") if isinstance(answer, dict) else answer
            raise Refused(f"{self.target.name}: {one_line(str(why))}")
        return answer


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
