"""Charts of figures over accepted runs, as SVGs in the colours of their page. Every point links to its run."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping, Sequence

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from harness.report.steps import Segment

#: Small enough for a phone; the colours are visible on white and on black.
INCHES = (4.4, 2.6)
COLOURS = ("#3b82d6", "#d9822b", "#2f9e63", "#b455c9")
INK = "#010203"
MOST_LABELS = 6
LOG_FROM = 30.0
#: Values that are closer together than this are drawn without zero, or their steps could not be seen.
FROM_ZERO = 0.8
#: Half the height of the band around a level, in standard deviations of a value.
BAND = 3.0


def lines(
    title: str,
    runs: Sequence[tuple[str, str]],
    series: Mapping[str, Sequence[float | None]],
    limit: float | None = None,
    levels: Sequence[Segment] = (),
    busy: Sequence[bool] = (),
) -> str:
    """Return an SVG of `series` over `runs`, each (label, page), oldest first; `limit` is drawn as a dashed line.

    levels: segments of the first series, drawn as bands of three times their noise, and a dotted line where one begins.
    busy: the runs whose points are hollow, and not connected to the others.
    """
    hollow = busy or [False] * len(runs)
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": title, "font.family": "sans-serif"}):
        figure = Figure(figsize=INCHES, layout="constrained")
        axes = figure.subplots()
        for (name, values), colour in zip(series.items(), COLOURS, strict=False):
            for alone, fill in ((False, colour), (True, "none")):
                pairs = [(i, value) for i, value in enumerate(values) if value is not None and hollow[i] is alone]
                at, shown = [i for i, _ in pairs], [value for _, value in pairs]
                if not alone:
                    axes.plot(at, shown, color=colour, linewidth=1.2, label=name or None)
                points = axes.scatter(at, shown, s=14, facecolor=fill, edgecolor=colour, linewidth=0.8)
                points.set_urls([runs[i][1] for i in at])
        for each in levels:
            across = [each.start - 0.5, each.end - 0.5]
            low, high = each.mean - BAND * each.noise, each.mean + BAND * each.noise
            axes.fill_between(across, low, high, color=COLOURS[0], alpha=0.18, linewidth=0)
            if each.start:
                axes.axvline(each.start - 0.5, color=INK, linewidth=0.8, linestyle=":")
        if limit is not None:
            axes.axhline(limit, color="#c0303a", linewidth=1, linestyle="--")
        numbers = [value for values in series.values() for value in values if value and math.isfinite(value)]
        if numbers and max(numbers) > LOG_FROM * min(numbers):
            axes.set_yscale("log")
        elif numbers and min(numbers) < FROM_ZERO * max(numbers):
            axes.set_ylim(0.0, 1.08 * max(axes.get_ylim()[1], limit or 0.0))
        axes.set_title(title, fontsize=10, color=INK)
        axes.xaxis.set_major_locator(MaxNLocator(MOST_LABELS, integer=True, min_n_ticks=1))
        axes.xaxis.set_major_formatter(lambda x, _: runs[int(x)][0] if 0 <= x < len(runs) else "")
        axes.tick_params(labelsize=8, colors=INK)
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(INK)
        if len(series) > 1:
            figure.legend(loc="outside lower center", ncols=len(series), fontsize=8, frameon=False, labelcolor=INK)
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :].replace(INK, "currentColor").replace(' target="_blank"', "")
    return re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
