"""Pictures of the warps and barriers of one CTA over modelled time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.report.canvas import Canvas, text_width

WIDTH, ROW, MARGIN = 900, 20, 12
#: Gaps narrower than this fraction of the picture cannot be seen, so the spans on both sides are merged.
NARROW = 1 / 1500
RUNS, WAITS, ENGINE, BARRIER, NAMED = "#3b82d6", "#a8a8a8", "#2f9e63", "#d9822b", "#c0303a"
LEGEND = "cycles. Blue: warp runs, grey: warp waits, green: unit is busy, orange: barrier is waited for"
WAITS_FOR = "waits for "
#: The process number of the first CTA in a trace.
FIRST_CTA = 1


@dataclass(frozen=True)
class Row:
    """A row of the picture: its name, and spans (start, end, colour)."""

    name: str
    spans: list[tuple[float, float, str]]


def picture(trace: str, roles: Mapping[int, str], named: Iterable[int] = ()) -> bytes:
    """Return a PNG of the first CTA of a trace in the Trace Event format, whose times are cycles.

    `roles` are the names of warps. The spans of the PTX lines `named` are marked.
    """
    events = [event for event in json.loads(trace)["traceEvents"] if event["pid"] == FIRST_CTA]
    shown = [event for event in events if event["ph"] == "X"]
    rows = list(_rows(events, shown, roles))
    end = max((event["ts"] + event["dur"] for event in shown), default=1.0)
    left, bottom = 16 + max((text_width(row.name) for row in rows), default=0), ROW * len(rows) + 8
    canvas, scale = Canvas(WIDTH, bottom + 44), (WIDTH - MARGIN - left) / end
    for i, row in enumerate(rows):
        top = 4 + ROW * i
        canvas.text(left - 8, top + ROW / 2, row.name, "rm")
        for colour in dict.fromkeys(colour for *_, colour in row.spans):
            for start, length in _merged([span[:2] for span in row.spans if span[2] == colour], end * NARROW):
                x = left + start * scale
                canvas.draw.rectangle((x, top + 2, x + max(0.0, length * scale - 1), top + ROW - 3), colour)
    for start in {event["ts"] for event in shown if event["args"]["PTX line"] in set(named)}:
        canvas.draw.point([(left + start * scale, y) for y in range(4, bottom, 2)], NAMED)
    canvas.ticks(left, WIDTH - MARGIN, bottom, 0, end, 8)
    canvas.text((left + WIDTH - MARGIN) / 2, bottom + 24, LEGEND, "mt")
    return canvas.png()


def _rows(events: Sequence[Any], shown: Sequence[Any], roles: Mapping[int, str]) -> Iterator[Row]:
    """Yield a row for each warp, for the tensor core and copies, and for each barrier while a warp waits for it."""
    barriers: dict[str, Row] = {}
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    tracks: dict[str, list[int]] = {}
    for track, name in sorted(names.items()):
        tracks.setdefault(name, []).append(track)
    for name, (track, *more) in tracks.items():
        kind, _, number = name.partition(" ")
        is_warp = kind == "warp"
        row = Row(f"{roles.get(int(number), '')} {name}".strip() if is_warp else name, [])
        for event in (event for event in shown if event["tid"] in (track, *more)):
            span = event["ts"], event["ts"] + event["dur"]
            what = event["name"].removeprefix(WAITS_FOR)
            waits = what != event["name"]
            row.spans.append((*span, WAITS if waits else RUNS if is_warp else ENGINE))
            if waits:
                barriers.setdefault(what, Row(what, [])).spans.append((*span, BARRIER))
        yield row
    yield from (barriers[name] for name in sorted(barriers))


def _merged(spans: list[tuple[float, float]], narrow: float) -> list[tuple[float, float]]:
    """Return spans as (start, width), and merge those that overlap or touch."""
    found: list[list[float]] = []
    for start, end in sorted(spans):
        if found and start - found[-1][1] <= narrow:
            found[-1][1] = max(found[-1][1], end)
        else:
            found.append([start, end])
    return [(start, max(end - start, narrow)) for start, end in found]
