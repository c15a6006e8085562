"""The seam: what the harness knows of a place where runs happen. Each kind of target is one file beside this one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from remote.link import Link


@dataclass(frozen=True)
class Run:
    """A run that lies ready in `folder` on a target, and the commands that take it further there, in folder `cwd`.

    `supervise` brings it to its verdict, on its own: its output belongs in the file `log`, and it has begun once the
    file `begun` is there. `follow` and a byte offset print how it goes until it has ended, one JSON object a line; with
    "watched" besides, who asks sees for himself whether the supervisor lives. `cancel` and a name ask it to end on
    behalf of somebody.
    """

    name: str
    folder: str
    cwd: str
    supervise: list[str]
    log: str
    begun: str
    follow: list[str]
    cancel: list[str]


class Target(Protocol):
    """Where runs happen. `device` is what they run on: "emulator" or "cuda"."""

    @property
    def name(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def workdir(self) -> str: ...
    @property
    def python(self) -> str:
        """The interpreter of the environment there; "" is the one that provisioning makes."""

    @property
    def arch(self) -> str:
        """What the kernel is compiled for, such as sm_100a."""

    @property
    def shared(self) -> bool:
        """Whether other people's `accepted` is kept there."""

    @property
    def sync(self) -> str:
        """How commits get there: "push" over the link, or the name of a git remote that both sides reach."""

    @property
    def disk_mb(self) -> int: ...
    @property
    def host(self) -> str:
        """The host as one would give it to ssh, whose key is to be pinned; "" is this machine."""

    @property
    def provisionable(self) -> bool:
        """Whether its environment is made by `make provision`; else it is this project's own."""

    @property
    def gpu(self) -> int:
        """Which GPU of the host, as nvidia-smi counts them."""

    @property
    def lock(self) -> str:
        """The name of what only one run at a time may use there; "" where a scheduler sees to that."""

    @property
    def at_once(self) -> int:
        """How many runs of one command go on there side by side; 0: as many as its scheduler lets."""

    @property
    def environment(self) -> dict[str, str]:
        """What the phases of a run find in their environment."""

    @property
    def inside(self) -> list[str]:
        """What stands before a command that is to run where runs do; nothing where that is where links lead to."""

    @property
    def why_not_from_here(self) -> str:
        """Why this machine cannot use it, and the mend; "" where it can."""

    def connect(self) -> Link:
        """Open a link. Raises Unreachable."""

    def submit(self, link: Link, runs: Sequence[Run]) -> None:
        """Have `runs` supervised; they go on when the link is closed. Repeating it starts nothing twice.

        Raises Refused where it cannot be started, or LinkLost.
        """

    def status(self, link: Link, run: Run, offset: int) -> Iterator[dict[str, Any]]:
        """How `run` goes, from byte `offset` of its journal on, until it has ended: what its `follow` prints.

        Raises Refused where the run is not there, or LinkLost where the link broke or went silent.
        """

    def over(self, link: Link, runs: Sequence[Run]) -> dict[str, str]:
        """Which of `runs` a scheduler has ended, by name, and how. Raises LinkLost."""

    def cancel(self, link: Link, run: Run, who: str) -> None:
        """Ask `run` to end, on behalf of `who`. Raises Refused where the run is not there, or LinkLost."""
