"""A comparison as one self-contained HTML page, without scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

from ...html import collapsible
from ...viewer.page import document
from .differences import Change, Comparison, LaunchChange
from .text import ALWAYS, difference, notable, numbered, shown, visible

SHOWN: Final = 25
"""The most rows of a table of lines or opcodes."""
STYLE: Final = """
h2, h4 { overflow-wrap: anywhere; } h3 { font-size: .95rem; margin: 1.2rem 0 .3rem; }
.change { text-align: right; white-space: nowrap; } td.slower { color: var(--bad); } td.faster { color: var(--unit); }
td.number, th.number { text-align: right; white-space: nowrap; }
.pair { display: grid; grid-template-columns: 9rem 1fr; gap: 0 .6rem; align-items: center; padding: .15rem 0;
  border-bottom: 1px solid var(--line); }
.pair span { overflow-wrap: anywhere; font-size: .85rem; }
.pair svg { display: block; width: 100%; height: 10px; margin: 1px 0; background: var(--soft); }
path.runs { fill: var(--runs); } path.waits { fill: var(--waits); } path.unit { fill: var(--unit); }
path.copy { fill: var(--copy); } path.barrier { fill: var(--barrier); }
@media (max-width: 600px) {
  .pair { grid-template-columns: 1fr; } td.number, .change { white-space: normal; overflow-wrap: normal; }
}
"""
LEGEND: Final = (
    '<p class="note">First CTA. In each row base is above head, both on one scale of {end:,.0f} cycles.</p>'
    '<p class="legend"><i class="runs"></i>runs <i class="waits"></i>waits <i class="unit"></i>tensor core '
    '<i class="copy"></i>copy <i class="barrier"></i>is waited for</p>'
)
BARRIERS: Final = "Waits, by mbarrier or reason, summed over roles"
Spans = Mapping[str, Sequence[Sequence[float]]]
WIDTH: Final = 1000


def page(comparison: Comparison) -> str:
    """Return the page. It loads nothing from elsewhere."""
    title = f"{comparison.base} and {comparison.head}"
    facts = [
        ("base", comparison.base),
        ("head", comparison.head),
        ("chip", f"{comparison.chip}, predicted; nothing was measured"),
        ("machine code", comparison.machine_code),
        *((f"only in {where}", ", ".join(names)) for where, names in _only(comparison) if names),
    ]
    cells = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts)
    parts = [f"<h1>{escape(title)}</h1>", f'<dl class="facts">{cells}</dl>']
    if len(comparison.launches) > 1 or comparison.only_base or comparison.only_head:
        each = [Change(f"{at} {launch.name}", *launch.cycles, "cycles") for at, launch in numbered(comparison)]
        parts.append(f"<h2>All launches</h2>{table([*comparison.total, *each])}")
    parts += [_launch(*each) for each in numbered(comparison)]
    return document(title, "\n".join(parts), STYLE)


def _only(comparison: Comparison) -> Sequence[tuple[str, Sequence[str]]]:
    return ("base", comparison.only_base), ("head", comparison.only_head)


def _launch(number: int, launch: LaunchChange) -> str:
    same = '<p class="note">The PTX of both versions is the same.</p>' if launch.same_ptx else ""
    roles = "".join(
        f"<h4>{escape(role.name)}</h4>{table(notable(role.waits), 'cycles per warp')}"
        for role in launch.roles
        if notable(role.waits)
    )
    parts = [
        ("Figures", _figures(launch.figures)),
        ("Machine code", table(launch.resources)),
        ("Timelines", timelines(*launch.timelines)),
        ("Roles", roles),
        (BARRIERS, table(notable(launch.barriers), "cycles") if len(launch.roles) > 1 else ""),
        ("Source lines", table(notable(launch.lines)[:SHOWN], "cycles per warp")),
        ("Instructions of a CTA's warps, by PTX opcode", table(notable(launch.opcodes)[:SHOWN])),
        ("Machine instructions of the kernel, by opcode", table(notable(launch.sass)[:SHOWN])),
    ]
    inside = "".join(f"<section><h3>{escape(title)}</h3>{part}</section>" for title, part in parts if part)
    return f"<h2>Launch {number}: {escape(launch.name)}</h2>{same}{inside}"


def _figures(figures: Sequence[Change]) -> str:
    """Return the figures that differ as a table, and the others below a line of text."""
    changed = [each for each in figures if visible(each) or each.name in ALWAYS]
    same = [each for each in figures if each not in changed and each.base is not None]
    return table(changed) + (collapsible("unchanged", table(same)) if same else "")


def table(changes: Sequence[Change], title: str = "") -> str:
    """Return changes as a table, "" of none."""
    if not changes:
        return ""
    head = f"<tr><th>{escape(title)}</th><th class='number'>base</th><th class='number'>head</th><th></th></tr>"
    return f"<table>{head}{''.join(map(_row, changes))}</table>"


def _row(change: Change) -> str:
    where = " &rarr; ".join(dict.fromkeys(escape(each) for each in change.where if each))
    place = f"<br><small>{where}</small>" if where else ""
    kind = ""
    if change.unit in ("cycles", "us") and change.delta:
        kind = " slower" if change.delta > 0 else " faster"
    return (
        f"<tr><td>{escape(change.name)}{place}</td><td class='number'>{escape(shown(change.base, change.unit))}</td>"
        f"<td class='number'>{escape(shown(change.head, change.unit))}</td>"
        f"<td class='change{kind}'>{escape(difference(change))}</td></tr>"
    )


def timelines(base: Sequence[Any], head: Sequence[Any]) -> str:
    """Return the rows of two timelines in pairs, on one scale. base, head: rows (name, spans by kind)."""
    sides: tuple[dict[str, Spans], ...] = (dict(base), dict(head))
    end = max(
        (span[1] for side in sides for kinds in side.values() for spans in kinds.values() for span in spans), default=0
    )
    if not end:
        return ""
    rows = "".join(
        f'<div class="pair"><span>{escape(name)}</span><div>'
        f"{''.join(_bar(which, side.get(name, {}), end) for which, side in zip(('base', 'head'), sides, strict=True))}"
        "</div></div>"
        for name in dict.fromkeys([*sides[0], *sides[1]])
    )
    return LEGEND.format(end=end) + rows


def _bar(which: str, kinds: Spans, end: float) -> str:
    """Return the spans of a row as a bar: one path for each kind."""
    paths = "".join(f'<path class="{kind}" d="{_path(spans, end)}"/>' for kind, spans in kinds.items())
    return f'<svg viewBox="0 0 {WIDTH} 10" preserveAspectRatio="none" role="img" aria-label="{which}">{paths}</svg>'


def _path(spans: Sequence[Sequence[float]], end: float) -> str:
    parts = ((start * WIDTH / end, max((stop - start) * WIDTH / end, 0.5)) for start, stop in spans)
    return "".join(f"M{at:.1f} 0h{width:.1f}v10h-{width:.1f}z" for at, width in parts)
