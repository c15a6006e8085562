"""The subject of a run: the facts that its job, its verdict, its page and the store of runs share."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One run: which commit is judged, on which milestones and target, and for whom.

    `base` is the accepted commit that the change is compared with ("" if nothing was accepted yet). `pins` is the
    digest of the protected paths of `commit`. `unpinned` are the protected paths that the change is meant to touch, and
    `because` is the reason given.
    """

    run: str
    commit: str
    base: str = ""
    milestones: list[str]
    target: str
    user: str
    pins: str
    unpinned: list[str] = field(default_factory=list)
    because: str = ""

    @property
    def milestone(self) -> str:
        """The milestones as one text, as records and notes have it."""
        return "+".join(self.milestones)

    def differences(self, other: Subject) -> str:
        """Return the names of the facts in which `other` differs, separated by commas; "" if it is equal."""
        return ", ".join(each.name for each in fields(self) if getattr(self, each.name) != getattr(other, each.name))


def decode(read: dict[str, Any]) -> Subject:
    """Make a subject from JSON that a host may have written. Raises KeyError or TypeError for any other shape."""
    for known in fields(Subject):
        value = read[known.name]
        texts = value if known.name in ("milestones", "unpinned") else [value]
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise TypeError(f"{known.name} is not a text")
    return Subject(**read)
