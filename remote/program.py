"""Programs that are sent to a target as text. The target only needs Python."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from remote.errors import Refused
from remote.link import Link, lines

#: Seconds without output after which a program counts as lost.
SILENCE_S = 150.0


class Named(Protocol):
    """The parts of a target that `send` needs."""

    @property
    def name(self) -> str: ...
    @property
    def python(self) -> str: ...


def send(
    target: Named,
    link: Link,
    program: Path,
    request: dict[str, Any],
    on_line: Callable[[str], None] = lambda _: None,
    silence_s: float = SILENCE_S,
    before: Sequence[str] = (),
) -> dict[str, Any]:
    """Run `main` of a program on the target with a JSON object, and return the JSON object in its last line.

    `on_line` is called with each other line. `before` is a command prefix, such as srun, that runs the interpreter
    elsewhere. Raises Refused with the program's reason, LinkLost or Untrusted.
    """
    python = target.python or "python3"
    stream = link.open([*before, python, "-I", "-"])
    last, code = b"", 0
    said = " ".join((*before[:1], python))
    try:
        stream.send(f"{program.read_text()}\nmain({json.dumps(request)!r})\n".encode())
        stream.end_input()
        for line in lines(stream, silence_s):
            on_line(last.decode(errors="replace"))
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
