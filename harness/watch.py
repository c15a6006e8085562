"""Following a run from afar: what it says in the terminal, and Ctrl-C once to leave it, twice to end it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from rich.console import Console
from rich.status import Status
from rich.text import Text

from harness.host import Host
from harness.journal import STALE_S, one_line
from harness.ledger import Entry
from remote.errors import LinkLost


class Progress(Protocol):
    """Who is told how a run goes."""

    def say(self, text: str) -> None:
        """Something happened."""

    def doing(self, text: str) -> None:
        """Something goes on."""


class Terminal:
    """Lines for what happened, one moving line for what goes on; nothing that comes in can style them."""

    def __init__(self, console: Console, status: Status) -> None:
        self._console = console
        self._status = status

    def say(self, text: str) -> None:
        self._console.print(Text(one_line(text, 500)), soft_wrap=True)

    def doing(self, text: str) -> None:
        self._status.update(Text(one_line(text, 160)))


class Gone(RuntimeError):
    """The supervisor of a run died, or beats no more, and left no verdict."""


def watch(entry: Entry, host: Host, progress: Progress, at: Callable[[int], None], offset: int) -> None:
    """Tell `progress` how the run goes, until it has ended; `at` hears how far the journal was read.

    Raises Gone where nothing is to come any more, LinkLost where the link broke.
    """
    ended = None
    for said in host.follow(entry.run, offset):
        if isinstance(said.get("event"), dict):
            _tell(said["event"], progress)
            at(int(said.get("offset", 0)))
        elif isinstance(said.get("beat"), dict):
            _beat(said, entry, progress)
        ended = next((key for key in ("ended", "dead") if said.get(key)), ended)
    if ended is None:
        raise LinkLost("the run stopped talking before its end")
    if ended == "dead":
        raise Gone("its supervisor died without a verdict (killed, or the machine went down)")


def _tell(event: dict[str, Any], progress: Progress) -> None:
    match event.get("event"):
        case "waiting":
            progress.say(f"waiting in line: {event.get('owner')} holds the device since {event.get('since')} "
                         f"(run {event.get('run')})")  # fmt: skip
        case "phase":
            progress.doing(f"{event.get('name')}")
        case "news":
            progress.say(f"  {event.get('text')}")
        case "ended":
            failed = f", exit {event.get('code')}" if event.get("code") else ""
            progress.say(f"{event.get('name'):20} {event.get('seconds')} s{failed}")
        case "broken":
            progress.say(f"the device is marked broken: {event.get('why')}")


def _beat(said: dict[str, Any], entry: Entry, progress: Progress) -> None:
    age_s, beat = said.get("age_s", 0.0), said["beat"]
    if isinstance(age_s, int | float) and age_s > STALE_S:
        raise Gone(f"its supervisor has not been heard of for {age_s:.0f} s on {entry.target}")
    if beat:
        progress.doing(f"{beat.get('phase')}  {beat.get('seconds')} s  {beat.get('last')}")
