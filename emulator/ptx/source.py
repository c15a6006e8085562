"""The text of a module without its comments, with the line of every position, and the comments that name arrays."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Final

from ..errors import PtxSyntaxError
from .syntax import Variable

_COMMENT = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/', re.S)
"""A comment, or a string, which may have // in it: nvcc writes include paths such as bin/..//include."""
_INLINE = re.compile(r"//\s*begin inline asm\b.*?//\s*end inline asm\b", re.S)
_OCTAL = re.compile(r"\\([0-7]{3})")
_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"')


def _unescaped(path: str) -> str:
    """Decode a path in which the compiler wrote each non-ASCII byte as an octal escape."""
    if "\\" not in path:
        return path
    return (
        _OCTAL.sub(lambda byte: chr(int(byte.group(1), 8)), path).encode("latin-1", "replace").decode(errors="replace")
    )


class Source:
    """PTX text. `text` has spaces in place of comments, so that positions and lines do not move."""

    def __init__(self, text: str) -> None:
        self.lines = tuple(text.splitlines())
        self.text = _COMMENT.sub(_without_comment, text)
        self.files: dict[int, str] = {int(m.group(1)): _unescaped(m.group(2)) for m in _FILE.finditer(self.text)}
        self._inline = [match.span() for match in _INLINE.finditer(text)]
        self._newlines = [m.start() for m in re.finditer("\n", text)]

    def line(self, at: int) -> int:
        """Return the line of a position, counted from 1."""
        return bisect_right(self._newlines, at - 1) + 1

    def inline(self, at: int) -> bool:
        """Return True if a position is in inline assembly, according to the compiler's comments."""
        before = bisect_right(self._inline, at, key=lambda span: span[0]) - 1
        return before >= 0 and at < self._inline[before][1]

    def error(self, reason: str, at: int) -> PtxSyntaxError:
        """Return the syntax error for the statement at a position."""
        line = self.line(at)
        return PtxSyntaxError(reason, line, self.lines[line - 1].strip() if self.lines else "")

    def end_of_block(self, at: int) -> int:
        """Return the position after the brace that closes the block which starts before `at`."""
        depth = 1
        for brace in re.finditer(r"[{}]", self.text[at:]):
            depth += 1 if brace.group() == "{" else -1
            if depth == 0:
                return at + brace.end()
        raise self.error("a brace is never closed", at)


def _without_comment(found: re.Match[str]) -> str:
    """Return a string as it is, and spaces in place of a comment."""
    return found[0] if found[0].startswith('"') else re.sub(r"[^\n]", " ", found[0])


_ARRAY: Final = re.compile(r"// shared array (\S+) \+(\d+) (\d+) (\S+)( member)?(?: as (.+))?")


def comment(kernel: str, name: str, offset: int, size: int, view: str = "", member: bool = False) -> str:
    """Return the comment for an array, as a line. offset: in dynamic shared memory, in bytes, as is the size.

    view: type, swizzle and layout of the tensor there. member: of a struct.
    """
    shown = f" as {view}" if view else ""
    return f"// shared array {kernel} +{offset} {size} {name}{' member' * member}{shown}\n"


def arrays(lines: Sequence[str], kernel: str, base: int) -> Iterator[Variable]:
    """Yield the arrays of a kernel that comments at the end of a module name. base: where dynamic memory begins."""
    for line in reversed(lines):
        match = _ARRAY.fullmatch(line.strip())
        if match is not None and match[1] == kernel:
            yield Variable(match[4], int(match[3]), 1, base + int(match[2]), match[6] or "", bool(match[5]))
        elif match is None and line.strip():
            return
