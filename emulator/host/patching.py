"""Attributes replaced for the length of a session and put back afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Final

_ABSENT: Final = object()


class Patches(AbstractContextManager["Patches"]):
    """A stack of replaced attributes. Leaving the context restores them, the last one first."""

    def __init__(self) -> None:
        self._saved: list[tuple[Any, str, Any]] = []

    def set(self, owner: Any, name: str, value: Any) -> Any:
        """Replace `owner.name` and answer what it was (None where there was none)."""
        old = vars(owner).get(name, _ABSENT)
        self._saved.append((owner, name, old))
        setattr(owner, name, value)
        return None if old is _ABSENT else old

    def update(self, owner: Any, values: Mapping[str, Any]) -> None:
        """Replace several attributes of `owner`."""
        for name, value in values.items():
            self.set(owner, name, value)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._saved:
            owner, name, old = self._saved.pop()
            if old is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, old)
