"""Comments that name the arrays in a kernel's dynamic shared memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from .syntax import Variable

_COMMENT: Final = re.compile(r"// shared array (\S+) \+(\d+) (\d+) (\S+)( member)?(?: as (.+))?")


def comment(kernel: str, name: str, offset: int, size: int, view: str = "", member: bool = False) -> str:
    """Return the comment for an array, as a line. offset: in dynamic shared memory, in bytes, as is the size.

    view: type, swizzle and layout of the tensor there. member: of a struct.
    """
    shown = f" as {view}" if view else ""
    return f"// shared array {kernel} +{offset} {size} {name}{' member' * member}{shown}\n"


def arrays(lines: Sequence[str], kernel: str, base: int) -> Iterator[Variable]:
    """Yield the arrays of a kernel that comments at the end of a module name. base: where dynamic memory begins."""
    for line in reversed(lines):
        match = _COMMENT.fullmatch(line.strip())
        if match is not None and match[1] == kernel:
            yield Variable(match[4], int(match[3]), 1, base + int(match[2]), match[6] or "", bool(match[5]))
        elif match is None and line.strip():
            return
