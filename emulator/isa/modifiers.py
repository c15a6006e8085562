"""Parsing of instruction modifiers, without skipping any, and the modifiers that many families share."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, TypeVar

from ..errors import UnknownInstruction
from ..machine.order.access import CLUSTER, CTA
from ..ptx.syntax import Instr

SEMANTICS: Final = frozenset({"relaxed", "acquire", "release", "acq_rel", "sc", "weak", "volatile"})
SCOPE: Final = frozenset({"cta", "cluster", "gpu", "sys"})
REACH: Final[Mapping[str | None, int]] = {"cta": CTA, "cluster": CLUSTER}
"""The scopes that do not reach the whole GPU."""
SHARED: Final = frozenset({"shared", "shared::cta", "shared::cluster"})
ALIGNED: Final = frozenset({"aligned"})
CACHE_HINT: Final = frozenset({"L2::cache_hint"})
CTA_GROUP: Final = frozenset({"cta_group::1", "cta_group::2"})


Kind = TypeVar("Kind")


class Modifiers:
    """The modifiers of one instruction. Each is taken once; `done` rejects what is left."""

    def __init__(self, instr: Instr) -> None:
        self._instr = instr
        self._left = list(instr.modifiers)

    def flag(self, name: str) -> bool:
        """Take `.name`; return True if it is present."""
        if name in self._left:
            self._left.remove(name)
            return True
        return False

    def choice(self, *names: str, default: str | None = None) -> str:
        """Take and return the one of `names` that is present, else return `default`.

        Raises UnknownInstruction without a default.
        """
        found = self._take(names) or default
        if found is None:
            raise self.unsupported(f"none of the modifiers {', '.join('.' + name for name in names)}")
        return found

    def last(self) -> str:
        """Take and return the last modifier, which is the type in most families."""
        if not self._left:
            raise self.unsupported("no type")
        return self._left.pop()

    def kind(self, kinds: Mapping[str, Kind]) -> Kind:
        """Take the type, the last modifier, and return its entry in `kinds`.

        Raises UnknownInstruction if there is none.
        """
        name = self.last()
        if name not in kinds:
            raise self.unsupported(f"type .{name}; allowed is {', '.join(kinds)}")
        return kinds[name]

    def pick(self, *groups: Collection[str]) -> tuple[str | None, ...]:
        """Return the first modifier of each group that is present, or None.

        Raises UnknownInstruction if a modifier is left.
        """
        picked = tuple(self._take(group) for group in groups)
        self.done()
        return picked

    def done(self) -> None:
        """Raise UnknownInstruction if a modifier was not taken."""
        if self._left:
            raise self.unsupported(f"modifier '.{self._left[0]}'")

    def unsupported(self, what: str) -> UnknownInstruction:
        """Return the error for a form of the instruction that is not supported."""
        return UnknownInstruction(self._instr, what)

    def _take(self, names: Collection[str]) -> str | None:
        for part in self._left:
            if part in names:
                self._left.remove(part)
                return part
        return None
