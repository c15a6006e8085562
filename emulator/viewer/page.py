"""One self-contained HTML page for a launch: what bounds it, its timeline, its accesses, its memories, its findings.

Each launch of a device is predicted, then recorded, and shown on a page of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path
from typing import Any, Final

from ..clock.chips import chip
from ..clock.clock import skeleton_of
from ..clock.conditions import USUAL
from ..clock.predict import predict
from ..clock.prediction import Prediction
from ..clock.profile import Role
from ..clock.trace import Trace
from ..debug.events import Executed
from ..debug.places import shortened
from ..debug.recording import LaunchRecorder, Recording
from ..errors import EmulatorError
from ..html import collapsible, preformatted
from ..machine.execution.scheduler import RunOptions
from ..machine.launch.launch import Launch
from ..machine.launch.source import source_place
from ..modules import LoadedKernel
from ..ptx.kinds import Kind
from ..ptx.syntax import Kernel
from .memory import Accesses, Map, accesses, maps

SHOWN_ACCESSES: Final = 40
VISIBLE: Final = 0.01
"""The utilisation from which a part is shown."""
_HERE: Final = Path(__file__).parent
SPACES: Final = {"shared": "bank passes", "global": "sectors of 32 bytes"}


@dataclass(frozen=True)
class Shown:
    """A launch to show.

    prediction: its time; or the reason why it has none. trace: what happened under the clock, perhaps until that
    reason. recording: its events. error: the error that ended it, None if it ran to its end.
    """

    number: int
    launch: Launch
    prediction: Prediction | str
    trace: Trace
    recording: Recording
    error: EmulatorError | None = None


def page(shown: Shown) -> str:
    """Return the page. It loads nothing from elsewhere."""
    kernel = shown.launch.kernel
    counted = accesses(shown.recording)
    memories = list(maps(shown.recording))
    lines = _Lines(kernel)
    trace = shown.trace.json()
    for event in json.loads(trace)["traceEvents"]:
        lines.add(event.get("args", {}).get("PTX line"))
    drawn = [_drawn(each, lines) for each in memories]
    data = {"lines": lines.found, "memories": drawn, "roles": _role_names(shown)}
    title = f"{kernel.name[:80]}: launch {shown.number}"
    body = "".join(
        [
            f"<h1>{escape(title)}</h1>",
            _summary(shown),
            _findings(shown),
            _bounds(shown.prediction),
            _section("timeline", "Timeline", TIMELINE),
            _section("accesses", "Accesses by source line", _accesses_table(kernel, counted)) if counted else "",
            _section("memory", "Memory over time", MEMORY) if drawn else "",
            _assumptions(shown.prediction),
        ]
    )
    script = f"<script>{(_HERE / 'page.js').read_text()}</script>"
    return document(title, body, end=_embedded("data", json.dumps(data)) + _embedded("trace", trace) + script)


def document(title: str, body: str, style: str = "", end: str = "") -> str:
    """Return a page of HTML in the viewer's style. style: more CSS. end: HTML behind the main part."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title><style>{(_HERE / 'page.css').read_text()}{style}</style></head>\n"
        f"<body><main>{body}</main>\n{end}</body></html>\n"
    )


def _embedded(name: str, text: str) -> str:
    """Return JSON as an element of the page. No text inside can end the element."""
    safe = text.replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{safe}</script>\n'


def _section(name: str, title: str, inside: str) -> str:
    return f'<section id="{name}-section"><h2>{escape(title)}</h2>{inside}</section>\n'


TIMELINE: Final = """
<p class="note">Predicted cycles of one cluster; nothing was measured. Drag to move, wheel or pinch to zoom, click for
details.</p>
<div class="tools"><button id="zoom-in" title="zoom in">+</button>
<button id="zoom-out" title="zoom out">&minus;</button>
<button id="fit" title="show everything">all</button>
<input id="search" type="search" placeholder="search name, line or source" aria-label="search the timeline">
<span id="hits" role="status"></span>
<label><input id="arrows" type="checkbox" checked> flows</label>
<button id="perfetto" title="save the trace for ui.perfetto.dev">save trace</button></div>
<div class="view"><canvas id="timeline" tabindex="0" aria-label="timeline"></canvas></div>
<p class="legend"><i class="runs"></i>runs <i class="waits"></i>waits <i class="unit"></i>tensor core
<i class="copy"></i>copy <i class="barrier"></i>barrier is waited for</p>
<pre id="details" hidden></pre>
"""
MEMORY: Final = """
<p class="note">Across: instructions that all warps have executed, the numbers of the debugger's <code>goto</code>. A
colour is the instruction that wrote last.</p>
<div id="memories"></div>
"""


class _Lines:
    """The PTX lines that the page names: [PTX text, file:line in function, source text] by line."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._at: dict[int | None, int] = {instr.line: at for at, instr in enumerate(kernel.instrs)}
        self.found: dict[int, tuple[str, str, str]] = {}

    def of(self, at: int) -> int:
        """Add an instruction, and return its PTX line."""
        instr, place = self._kernel.instrs[at], source_place(self._kernel, at)
        if instr.line not in self.found:
            where = ("", "") if place is None else (place.where, place.text)
            self.found[instr.line] = (shortened(instr.text), *where)
        return instr.line

    def add(self, line: int | None) -> None:
        """Add a PTX line of the kernel."""
        if (at := self._at.get(line)) is not None:
            self.of(at)


# parts ---------------------------------------------------------------------------------------------------------------


def _summary(shown: Shown) -> str:
    launch, prediction = shown.launch, shown.prediction
    if shown.error is not None:
        verdict = f"ended with {type(shown.error).__name__}"
    else:
        verdict = f"{len(launch.findings)} findings" if launch.findings else "nothing found"
    facts = [
        ("verdict", verdict),
        ("grid, block, cluster", f"{launch.grid}, {launch.block}, {launch.cluster}"),
        ("shared memory", f"{launch.shared_bytes:,} bytes"),
    ]
    if isinstance(prediction, str):
        facts.append(("predicted", prediction))
    else:
        time = f"{prediction.cycles:,.0f} cycles, {prediction.seconds * 1e6:,.1f} us on the {prediction.chip}"
        facts += [("predicted", time), ("bound by", prediction.bound)]
    cells = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts)
    return f'<dl class="facts">{cells}</dl>\n'


def _findings(shown: Shown) -> str:
    found: list[tuple[str, str]] = []
    if shown.error is not None:
        found.append((type(shown.error).__name__, str(shown.error)))
    found += [(type(fault).__name__, str(fault)) for fault in shown.launch.findings]
    if not found:
        return ""
    inside = "".join(
        f"<details{' open' if number == 0 else ''}><summary>{escape(f'{name}: {text.splitlines()[0]}')}</summary>"
        f"{preformatted(text)}</details>"
        for number, (name, text) in enumerate(found)
    )
    return _section("findings", "Findings", inside)


def _bounds(prediction: Prediction | str) -> str:
    if isinstance(prediction, str):
        return ""
    shown = {part: share for part, share in prediction.busy.items() if share >= VISIBLE}
    idle = ", ".join(part for part in prediction.busy if part not in shown)
    bars = "".join(
        f'<tr><th>{escape(part)}</th><td class="bar"><meter min="0" max="1" value="{share:.4f}"></meter></td>'
        f"<td>{share:.0%}</td></tr>"
        for part, share in shown.items()
    )
    why = (
        "No part is busy half of the time: the launch is bound by latency. Follow the longest wait to who ends it."
        if prediction.bound == "latency"
        else f"{prediction.bound} is the busiest part."
    )
    roles = "".join(_role(role) for role in prediction.roles)
    inside = (
        f"<p>{escape(why)}</p><table class='busy'>{bars}</table>"
        + (f'<p class="note">Busy for less than {VISIBLE:.0%} of the chip: {escape(idle)}.</p>' if idle else "")
        + f"<table class='roles'><tr><th>warps</th><th>cycles</th><th>for</th><th>where</th></tr>{roles}</table>"
    )
    return _section("bounds", "What bounds it", inside)


def _role(role: Role) -> str:
    rows = [("running", role.running, "")]
    rows += [(f"waiting for {wait.what}", wait.cycles, _at(wait.line, wait.source)) for wait in role.long_waits]
    names = ", ".join(map(str, role.warps))
    return "".join(
        f"<tr><td>{names if number == 0 else ''}</td><td>{cycles / role.cycles:.0%}</td>"
        f"<td>{escape(what)}</td><td>{escape(where)}</td></tr>"
        for number, (what, cycles, where) in enumerate(rows)
    )


def _at(line: int, source: str) -> str:
    return source or f"PTX line {line}"


def _accesses_table(kernel: Kernel, counted: Sequence[Accesses]) -> str:
    rows = "".join(_access_row(kernel, each) for each in counted[:SHOWN_ACCESSES])
    more = len(counted) - SHOWN_ACCESSES
    rest = f'<p class="note">The {more} lines that are left out lose no more than the last.</p>' if more > 0 else ""
    return (
        '<p class="note">Passes over the banks of shared memory, and sectors of global memory: taken, and needed with '
        "the same bytes in the best layout.</p>"
        "<table class='accesses'><tr><th>source</th><th>unit</th><th>times</th><th>taken</th><th>needed</th>"
        f"<th>lost</th></tr>{rows}</table>{rest}"
    )


def _access_row(kernel: Kernel, each: Accesses) -> str:
    instr, place = kernel.instrs[each.at], source_place(kernel, each.at)
    source = f"PTX line {instr.line}" if place is None else place.where
    text = shortened(instr.text) if place is None else place.text
    warn = ' class="lost"' if each.lost else ""
    of = f"{instr.opcode}, {each.instructions} instructions" if each.instructions > 1 else instr.opcode
    return (
        f"<tr{warn}><td>{escape(source)}<br><code>{escape(text)}</code> <small>{escape(of)}</small></td>"
        f"<td>{SPACES[each.space]}</td><td>{each.times:,}</td><td>{each.taken:,}</td>"
        f"<td>{each.needed:,}</td><td>{each.lost:,}</td></tr>"
    )


def _drawn(memory: Map, lines: _Lines) -> dict[str, Any]:
    bands = [
        [band.first, band.end, [[moment, lines.of(at)] for moment, at in band.writes], list(band.names)]
        for band in memory.bands
    ]
    return {"title": memory.title, "unit": memory.unit, "end": memory.end, "bands": bands}


def _assumptions(prediction: Prediction | str) -> str:
    if isinstance(prediction, str):
        return ""
    text = "".join(f"<li>{escape(each)}</li>" for each in prediction.assumptions)
    return collapsible("what the prediction assumes", f"<ul>{text}</ul>")


ROLES: Final[dict[Kind, str]] = {
    Kind.TENSOR_MMA: "MMA",
    Kind.GROUP_MMA: "MMA",
    Kind.BOX_COPY: "TMA",
    Kind.BULK_COPY: "bulk copies",
    Kind.BULK_REDUCTION: "bulk copies",
    Kind.TENSOR_LOAD: "tensor memory",
}
"""Activity of a warp, by the kind of an instruction that it executes."""


def _role_names(shown: Shown) -> dict[int, str]:
    """Name the activities of each warp of a CTA, by its index."""
    effects = shown.recording.effects
    done: dict[int, dict[str, None]] = {}
    for event in shown.recording.events:
        if isinstance(event, Executed) and event.lanes:
            role = ROLES.get(effects[event.at].instr.kind)
            if role is not None:
                done.setdefault(event.warp.index, {})[role] = None
    return {warp: ", ".join(sorted(names)) for warp, names in sorted(done.items())}


LONGEST: Final = 60
"""Characters of a kernel's name in the name of a file."""
Timed = tuple[Prediction | str, Trace]
"""The prediction of a launch, or the reason why it has none, and the trace of the clock until then."""


class Pages:
    """Writes a page for each launch into a folder. chip: the one whose time is predicted."""

    def __init__(self, folder: Path, chip_name: str, recorder: LaunchRecorder) -> None:
        self._folder, self._chip, self._recorder = folder, chip(chip_name), recorder
        self.written: list[Path] = []

    def run(self, launch: Launch, kernel: LoadedKernel, options: RunOptions) -> Mapping[str, Any]:
        """Predict a launch, run and record it, and write its page if it was recorded."""
        timed = self._predicted(launch, kernel)
        error: EmulatorError | None = None
        try:
            return self._recorder.run(launch, kernel, options)
        except EmulatorError as why:
            error = why
            raise
        finally:
            if self._recorder.last is not None:
                self._write(launch, timed, self._recorder.last, error)

    def _predicted(self, launch: Launch, kernel: LoadedKernel) -> Timed:
        """Predict a launch that has not run yet."""
        trace = Trace()
        try:
            return predict(self._chip, launch, partial(skeleton_of, kernel), trace, USUAL), trace
        except EmulatorError as why:
            return f"no prediction: {str(why).splitlines()[0]}", trace

    def _write(self, launch: Launch, timed: Timed, recording: Recording, error: EmulatorError | None) -> None:
        """Write the page of a launch that has ended. error: the error that ended it early."""
        number = len(self.written) + 1
        name = re.sub(r"\W+", "_", launch.kernel.name)[:LONGEST]
        path = self._folder / f"{number}-{name}.html"
        self._folder.mkdir(parents=True, exist_ok=True)
        path.write_text(page(Shown(number, launch, *timed, recording, error)))
        self.written.append(path)
