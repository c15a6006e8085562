"""Programs of ours that are sent to a target as text: nothing need be there but Python."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from remote.errors import Refused
from remote.link import Link, lines

#: How long a program may go without a word.
SILENCE_S = 150.0


class Named(Protocol):
    """A target, as far as a program needs to know it."""

    @property
    def name(self) -> str: ...
    @property
    def python(self) -> str: ...


def send(
    target: Named,
    link: Link,
    program: Path,
    request: dict[str, Any],
    hear: Callable[[str], None] = lambda _: None,
    silence_s: float = SILENCE_S,
    before: Sequence[str] = (),
) -> dict[str, Any]:
    """Call `main` of a program with a JSON object there; `hear` gets its lines but for the last, which is the answer.

    `before` stands before the interpreter: what has it run somewhere else.
    Raises Refused with its reason, LinkLost, or Untrusted.
    """
    python = target.python or "python3"
    stream = link.open([*before, python, "-I", "-"])
    last, code = b"", 0
    said = " ".join((*before[:1], python))
    try:
        stream.send(f"{program.read_text()}\nmain({json.dumps(request)!r})\n".encode())
        stream.end_input()
        for line in lines(stream, silence_s):
            hear(last.decode(errors="replace"))
            last = line
        code = stream.exit_code()
        answer = json.loads(last)
    except (ValueError, RecursionError):
        answer = {"refused": f"{said} there: {stream.errors()[-300:].strip() or f'exit {code}'}"}
    finally:
        stream.close()
    if not isinstance(answer, dict) or "refused" in answer:
        why = answer.get("refused") if isinstance(answer, dict) else answer
        raise Refused(f"{target.name}: {why}")
    return answer
