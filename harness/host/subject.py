"""The subject of a run: the facts that its job, its verdict, its page and the store of runs share."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from harness.host.protected import PROTECTION


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One run: which commit is judged, on which milestones and target, and for whom.

    `base` is the accepted commit that the change is compared with ("" if nothing was accepted yet). `pins` is the
    digest of the protected paths of `commit`. `unpinned` are the protected paths that the change is meant to touch, and
    `because` is the reason given. `rejected` are the runs that rejected the same tree before.
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
    rejected: list[str] = field(default_factory=list)

    @property
    def remarks(self) -> list[str]:
        """Facts that a reader of the verdict must know: unpinned paths, whose code judged, and earlier rejections."""
        own = [path for path in self.unpinned if PROTECTION.judges(path)] if self.base else ["no accepted commit"]
        found = [f"unpinned {', '.join(self.unpinned)} because {self.because}"] if self.unpinned else []
        found += [f"the candidate's own code judged ({', '.join(own)})"] if own else []
        return found + ([f"this tree was rejected before, by {', '.join(self.rejected)}"] if self.rejected else [])

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
        if known.name == "rejected" and known.name not in read:  # by an older version
            continue
        value = read[known.name]
        texts = value if known.name in ("milestones", "unpinned", "rejected") else [value]
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise TypeError(f"{known.name} is not a text")
    return Subject(**read)
