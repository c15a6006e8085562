"""The protocol of targets, the places where runs happen. Each kind of target is one module of this package."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from remote.link import Link


@dataclass(frozen=True)
class Run:
    """A run that is ready in `folder` on a target, and the commands for it, which run in the folder `cwd`.

    `supervise` takes the run to its verdict. Its output goes to the file `log`, and it has started once the file
    `begun` exists. `follow`, with a byte offset of the journal as argument, prints the progress until the run has
    ended, one JSON object per line; with "watched" as second argument it does not check whether the supervisor is
    alive. `cancel`, with a user's name as argument, asks the run to end.
    """

    name: str
    folder: str
    cwd: str
    supervise: list[str]
    log: str
    begun: str
    follow: list[str]
    cancel: list[str]


@dataclass(frozen=True)
class End:
    """The end of a run according to a scheduler: why, and whether somebody cancelled it.

    The run's verdict may still appear for `visible_s` seconds.
    """

    why: str
    cancelled: bool
    visible_s: float


class Target(Protocol):
    """A place where runs happen. `device` is "emulator" or "cuda"."""

    @property
    def name(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def workdir(self) -> str: ...
    @property
    def python(self) -> str:
        """The Python interpreter there; "" is the one of the provisioned environment."""

    @property
    def base_python(self) -> str:
        """The interpreter there that makes this environment; "" is `python`, or python3 if that is not set either."""

    @property
    def arch(self) -> str:
        """The architecture that the kernel is compiled for, such as sm_100a."""

    @property
    def shared(self) -> bool:
        """True if the target keeps an `accepted` that its users share."""

    @property
    def sync(self) -> str:
        """The way commits get there: "push" over the link, or the name of a git remote that both sides reach."""

    @property
    def disk_mb(self) -> int: ...
    @property
    def host(self) -> str:
        """The host as given to ssh, whose key must be pinned; "" is this machine."""

    @property
    def provisionable(self) -> bool:
        """True if `make provision` makes its environment; otherwise it is this project's own."""

    @property
    def gpu(self) -> int:
        """The index of the GPU, as nvidia-smi counts them."""

    @property
    def lock(self) -> str:
        """The name of the lock of the device; "" if a scheduler assigns devices."""

    @property
    def at_once(self) -> int:
        """The most runs of one command that run in parallel; 0 if a scheduler decides."""

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables for the phases of a run."""

    @property
    def node_prefix(self) -> list[str]:
        """The command prefix that runs a program on a compute node; [] if runs execute on the linked host itself."""

    @property
    def why_not_from_here(self) -> str:
        """The reason why this machine cannot use the target, and the fix; "" if it can."""

    def connect(self) -> Link:
        """Open a link. Raises Unreachable."""

    def submit(self, link: Link, runs: Sequence[Run]) -> None:
        """Start the supervisors of `runs`, which outlive the link. Repeating it starts nothing twice.

        Raises Refused or LinkLost.
        """

    def status(self, link: Link, run: Run, offset: int) -> Iterator[dict[str, Any]]:
        """Yield the progress of `run` from byte `offset` of its journal on, until it has ended.

        Raises Refused if there is no such run, and LinkLost if the link broke or went silent.
        """

    def ended(self, link: Link, runs: Sequence[Run]) -> dict[str, End]:
        """Return the names of the `runs` that a scheduler has ended, with the end of each. Raises LinkLost."""

    def cancel(self, link: Link, run: Run, who: str) -> None:
        """Ask `run` to end, on behalf of `who`. Raises Refused if there is no such run, or LinkLost."""
