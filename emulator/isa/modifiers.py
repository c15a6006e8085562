"""Reading an instruction's modifiers so that none is skipped, and those that many families have."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, TypeVar, overload

from ..errors import UnknownInstruction
from ..machine.order.access import CLUSTER, CTA
from ..ptx.syntax import Instr

SEMANTICS: Final = frozenset({"relaxed", "acquire", "release", "acq_rel", "sc", "weak", "volatile"})
SCOPE: Final = frozenset({"cta", "cluster", "gpu", "sys"})
REACH: Final[Mapping[str | None, int]] = {"cta": CTA, "cluster": CLUSTER}
"""The scopes that do not reach all."""
SHARED: Final = frozenset({"shared", "shared::cta", "shared::cluster"})
ALIGNED: Final = frozenset({"aligned"})
CACHE_HINT: Final = frozenset({"L2::cache_hint"})
CTA_GROUP: Final = frozenset({"cta_group::1", "cta_group::2"})


Kind = TypeVar("Kind")


class Modifiers:
    """The modifiers of one instruction, taken one by one; `done` refuses what is left."""

    def __init__(self, instr: Instr) -> None:
        self._instr = instr
        self._left = list(instr.modifiers)

    def flag(self, name: str) -> bool:
        """Whether `.name` is there."""
        if name in self._left:
            self._left.remove(name)
            return True
        return False

    @overload
    def choice(self, *names: str) -> str: ...
    @overload
    def choice(self, *names: str, default: str) -> str: ...
    def choice(self, *names: str, default: str | None = None) -> str:
        """Which of `names` is there; without one, `default`, and without that UnknownInstruction."""
        found = self._take(names) or default
        if found is None:
            raise self.refuse(f"none of the modifiers {', '.join('.' + name for name in names)}")
        return found

    def last(self) -> str:
        """The last part, which in most families is the type."""
        if not self._left:
            raise self.refuse("no type")
        return self._left.pop()

    def kind(self, kinds: Mapping[str, Kind]) -> Kind:
        """What `kinds` has for the type, the last part. Raises UnknownInstruction for a type that it lacks."""
        name = self.last()
        if name not in kinds:
            raise self.refuse(f"type .{name}; allowed is {', '.join(kinds)}")
        return kinds[name]

    def pick(self, *groups: Collection[str]) -> tuple[str | None, ...]:
        """Of each group the first that is there, or None. Raises UnknownInstruction if a modifier is left."""
        picked = tuple(self._take(group) for group in groups)
        self.done()
        return picked

    def done(self) -> None:
        """Raise UnknownInstruction if a modifier was not taken."""
        if self._left:
            raise self.refuse(f"modifier '.{self._left[0]}'")

    def refuse(self, what: str) -> UnknownInstruction:
        """The error that this form of the instruction is not implemented."""
        return UnknownInstruction(self._instr, what)

    def _take(self, names: Collection[str]) -> str | None:
        for part in self._left:
            if part in names:
                self._left.remove(part)
                return part
        return None
