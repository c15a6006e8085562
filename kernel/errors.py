"""The exception that the kernel's host call raises."""

from __future__ import annotations


class ArgumentError(ValueError):
    """An argument that the kernel does not support; raised before anything is compiled or launched.

    The message names the argument, the value seen and what is allowed.
    """

    def __init__(self, name: str, seen: object, allowed: str) -> None:
        super().__init__(f"{name} is {seen}; allowed: {allowed}")
        self.name = name
        self.seen = seen
        self.allowed = allowed
