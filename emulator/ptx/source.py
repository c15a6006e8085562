"""The text of a module: without comments, with every position's line."""

from __future__ import annotations

import re
from bisect import bisect_right

from ..errors import PtxSyntaxError

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_INLINE = re.compile(r"//\s*begin inline asm\b.*?//\s*end inline asm\b", re.S)
_OCTAL = re.compile(r"\\([0-7]{3})")
_FILE = re.compile(r'\.file\s+(\d+)\s+"([^"]*)"')


def _unescaped(path: str) -> str:
    """A path, of which compilers write each byte beyond ASCII as three octal digits."""
    if "\\" not in path:
        return path
    return (
        _OCTAL.sub(lambda byte: chr(int(byte.group(1), 8)), path).encode("latin-1", "replace").decode(errors="replace")
    )


class Source:
    """PTX text. `text` has spaces where comments were, so that positions and lines stay what they are."""

    def __init__(self, text: str) -> None:
        self.lines = tuple(text.splitlines())
        self.text = _COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)
        self.files: dict[int, str] = {int(m.group(1)): _unescaped(m.group(2)) for m in _FILE.finditer(self.text)}
        self._inline = [match.span() for match in _INLINE.finditer(text)]
        self._newlines = [m.start() for m in re.finditer("\n", text)]

    def line(self, at: int) -> int:
        """The line of a position, from 1."""
        return bisect_right(self._newlines, at - 1) + 1

    def inline(self, at: int) -> bool:
        """Whether a position is in inline assembly, as the compiler's comments tell."""
        before = bisect_right(self._inline, at, key=lambda span: span[0]) - 1
        return before >= 0 and at < self._inline[before][1]

    def refuse(self, reason: str, at: int) -> PtxSyntaxError:
        """The error that what stands at a position is not understood."""
        line = self.line(at)
        return PtxSyntaxError(reason, line, self.lines[line - 1].strip() if self.lines else "")

    def end_of_block(self, at: int) -> int:
        """The position behind the brace that closes the block which starts before `at`."""
        depth = 1
        for brace in re.finditer(r"[{}]", self.text[at:]):
            depth += 1 if brace.group() == "{" else -1
            if depth == 0:
                return at + brace.end()
        raise self.refuse("a brace is never closed", at)
