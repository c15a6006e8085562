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
#: The text that follows each program.
ANSWER = Path(__file__).parent / "answer.py"


class Named(Protocol):
    """The parts of a target that `send` needs."""

    @property
    def name(self) -> str: ...
    @property
    def python(self) -> str: ...
    @property
    def base_python(self) -> str: ...


def send(
    target: Named,
    link: Link,
    program: Path,
    function: str,
    request: dict[str, Any],
    on_line: Callable[[str], None] = lambda _: None,
    silence_s: float = SILENCE_S,
    before: Sequence[str] = (),
) -> dict[str, Any]:
    """Call a function of a program on the target with the fields of a JSON object, and return its answer.

    The answer is the last line that it prints; `on_line` is called with each other line. `before` is a command prefix,
    such as srun, that runs the interpreter elsewhere. Raises Refused with the program's reason, LinkLost or Untrusted.
    """
    python = target.base_python or target.python or "python3"
    stream = link.open([*before, python, "-I", "-"])
    last, code = b"", 0
    said = " ".join((*before[:1], python))
    try:
        call = f"answer({function}, {json.dumps(request)!r})\n"
        stream.send(f"{program.read_text()}\n\n{ANSWER.read_text()}\n\n{call}".encode())
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
