"""Progress of a run, shown in the terminal while it is followed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from rich.console import Console
from rich.status import Status
from rich.text import Text

from harness.client.host import Host
from harness.client.run_store import Entry
from harness.host.journal import STALE_S, one_line
from harness.host.verdict import Verdict
from remote.errors import LinkLost


class Progress(Protocol):
    """Receives the progress of a run."""

    def say(self, text: str) -> None:
        """Report an event."""

    def doing(self, text: str) -> None:
        """Show the current activity."""


class Terminal:
    """Prints a line for each event, and one status line for the current activity. Text from hosts cannot style them."""

    def __init__(self, console: Console, status: Status) -> None:
        self._console = console
        self._status = status

    def say(self, text: str) -> None:
        self._console.print(Text(one_line(text, 500)), soft_wrap=True)

    def doing(self, text: str) -> None:
        self._status.update(Text(one_line(text, 160)))


class Gone(RuntimeError):
    """The supervisor of a run has stopped its heartbeat, or left no readable verdict."""


class Died(Gone):
    """The supervisor of a run is dead, so there will be no verdict."""

    def __init__(self, why: str, verdict: Verdict = Verdict.INFRA) -> None:
        super().__init__(why)
        self.verdict = verdict


def watch(entry: Entry, host: Host, progress: Progress, at: Callable[[int], None], offset: int) -> None:
    """Follow the run from byte `offset` of its journal, and report to `progress`, until it has ended.

    `at` is called with the offset reached. Raises Died if the supervisor is dead, Gone if its heartbeat has stopped,
    and LinkLost if the link broke.
    """
    ended, queued = None, ""
    for said in host.follow(entry.run, offset):
        if isinstance(said.get("event"), dict):
            _tell(_Texts(said["event"]), progress)
            at(said["offset"] if isinstance(said.get("offset"), int) else offset)
        elif isinstance(said.get("beat"), dict):
            _beat(said, entry, progress)
        elif said.get("queue", queued) != queued:
            queued = one_line(str(said["queue"]), 200)
            progress.say(queued)
        elif said.get("dead") and "why" in said:
            cancelled = Verdict.CANCELLED if said.get("cancelled") is True else Verdict.INFRA
            raise Died(one_line(str(said["why"])), cancelled)
        ended = next((key for key in ("ended", "dead") if said.get(key)), ended)
    if ended is None:
        raise LinkLost("the link closed before the end of the run")
    if ended == "dead":
        raise Died("its supervisor died without a verdict (killed, or the machine went down)")


class _Texts(dict[str, Any]):
    """An event whose values are all converted to printable text."""

    def __getitem__(self, name: str) -> str:
        return one_line(str(self.get(name, "")), 200)


def _tell(event: _Texts, progress: Progress) -> None:
    match event["event"]:
        case "start" if event["again"] == "True":
            progress.say(f"restarted from the beginning, on {event['host']}")
        case "waiting":
            who = f"{event['owner']} has had the device since {event['since']} (run {event['run']})"
            progress.say(f"waiting in the queue: {who}")
        case "phase":
            progress.doing(event["name"])
        case "news":
            progress.say(f"  {event['text']}")
        case "ended":
            failed = f", exit {event['code']}" if event["code"] not in ("", "0") else ""
            progress.say(f"{event['name']:20} {event['seconds']} s{failed}")
        case "broken":
            progress.say(f"the device is marked broken: {event['why']}")


def _beat(said: dict[str, Any], entry: Entry, progress: Progress) -> None:
    age_s, beat = said.get("age_s"), _Texts(said["beat"])
    if isinstance(age_s, int | float) and age_s > STALE_S:
        raise Gone(f"its supervisor has sent no heartbeat for {age_s:.0f} s on {entry.subject.target}")
    if beat:
        progress.doing(f"{beat['phase']}  {beat['seconds']} s  {beat['last']}")
