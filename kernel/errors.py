"""The exception that the kernel's host call raises."""

from __future__ import annotations

import re
from collections.abc import Mapping


class ArgumentError(ValueError):
    """An argument that the kernel does not support; raised before anything is compiled or launched.

    The message names the argument, the value seen and what is allowed.
    """

    def __init__(self, name: str, seen: object, allowed: str) -> None:
        super().__init__(f"{name} is {seen}; allowed: {allowed}")
        self.name = name
        self.seen = seen
        self.allowed = allowed

    def renamed(self, names: Mapping[str, str]) -> ArgumentError:
        """Return the error with the names of a caller's arguments. names: the kernel's names, and those instead."""
        inner = re.compile(rf"(?<![\w.])({'|'.join(map(re.escape, names))})(?!\w)")
        return ArgumentError(inner.sub(lambda match: names[match[0]], self.name), self.seen, self.allowed)
