"""Temporary replacement of attributes and environment variables during a session."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import ModuleType, TracebackType
from typing import Any, Final

from .children.sitecustomize import AfterImport

_ABSENT: Final = object()


class Patches(AbstractContextManager["Patches"]):
    """A stack of replaced attributes. Leaving the context restores them in reverse order."""

    def __init__(self) -> None:
        self._saved: list[tuple[Any, str, Any]] = []
        self._awaited: list[AfterImport] = []

    def set(self, owner: Any, name: str, value: Any) -> Any:
        """Replace `owner.name` and return its old value, None if it did not exist."""
        old = vars(owner).get(name, _ABSENT)
        self._saved.append((owner, name, old))
        setattr(owner, name, value)
        return None if old is _ABSENT else old

    def wrap(self, owner: Any, name: str, wrapped: Callable[[Any], Any]) -> None:
        """Replace `owner.name` by `wrapped` of it, if there is one: not all versions of torch have all names."""
        if (old := getattr(owner, name, None)) is not None:
            self.set(owner, name, wrapped(old))

    def update(self, owner: Any, values: Mapping[str, Any]) -> None:
        """Replace several attributes of `owner`."""
        for name, value in values.items():
            self.set(owner, name, value)

    def when_imported(self, name: str, then: Callable[[ModuleType], None]) -> None:
        """Call `then` with a module: now if it is imported, otherwise when it is."""
        if sys.modules.get(name) is not None:
            then(sys.modules[name])
        else:
            self._awaited.append(AfterImport(name, then))
            sys.meta_path.insert(0, self._awaited[-1])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder not in self._awaited]
        while self._saved:
            owner, name, old = self._saved.pop()
            if old is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, old)


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables of this process and its children while the context is open."""
    saved = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in saved.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
