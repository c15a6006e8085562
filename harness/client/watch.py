"""Following a run from afar: what it says in the terminal, and Ctrl-C once to leave it, twice to end it."""

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
    """The supervisor of a run beats no more, or left no verdict that can be read."""


class Died(Gone):
    """The supervisor of a run is dead: nothing is to come any more."""

    def __init__(self, why: str, verdict: Verdict = Verdict.INFRA) -> None:
        super().__init__(why)
        self.verdict = verdict


def watch(entry: Entry, host: Host, progress: Progress, at: Callable[[int], None], offset: int) -> None:
    """Tell `progress` how the run goes, until it has ended; `at` hears how far the journal was read.

    Raises Died where nothing is to come any more, Gone where nothing seems to, LinkLost where the link broke.
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
        raise LinkLost("the run stopped talking before its end")
    if ended == "dead":
        raise Died("its supervisor died without a verdict (killed, or the machine went down)")


class _Texts(dict[str, Any]):
    """What came in, every value a text."""

    def __getitem__(self, name: str) -> str:
        return one_line(str(self.get(name, "")), 200)


def _tell(event: _Texts, progress: Progress) -> None:
    match event["event"]:
        case "start" if event["again"] == "True":
            progress.say(f"started again from the beginning, on {event['host']}")
        case "waiting":
            who = f"{event['owner']} holds the device since {event['since']} (run {event['run']})"
            progress.say(f"waiting in line: {who}")
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
        raise Gone(f"its supervisor has not been heard of for {age_s:.0f} s on {entry.subject.target}")
    if beat:
        progress.doing(f"{beat['phase']}  {beat['seconds']} s  {beat['last']}")
