"""Pictures of the errors of a case: maps of O and U over rows and head dim, and plots of lse and m over rows.

All pictures have the same colour scale, so that runs can be compared. Solid lines separate the row tiles that a CTA
computes, and dotted lines the 32 rows of each softmax warp.
"""

import io

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from stages.calls import callers
from stages.case import Case
from stages.check import referred
from stages.expected import Outputs
from stages.locate import coordinates
from stages.metrics import Array

DPI = 72
SCALE = LogNorm(1e-6, 1.0, clip=True)
MOST_LABELS = 16


def error_picture(case: Case, got: Outputs, want: Outputs) -> bytes:
    """Return a PNG of the errors of all results of `case`. Values that are NaN on one side only are red."""
    maps: list[str] = [name for name in ("O", "U") if name in want]
    rows: list[str] = [name for name in ("lse", "m") if name in want]
    widths = [3] * len(maps) + [2] * len(rows)
    left, right = 1.2, 0.2
    width = left + right + 1.0 * sum(widths)
    figure = Figure(figsize=(width, 4.6), dpi=DPI)
    figure.subplots_adjust(left / width, 0.12, 1 - right / width, 0.93, wspace=0.25)
    axes = figure.subplots(1, len(widths), width_ratios=widths, sharey=True)
    for name, axis in zip(maps, axes, strict=False):
        colours = colormaps["viridis"].with_extremes(bad="red")
        error = np.abs(_error(referred(name, got, want), want[name]))
        image = axis.imshow(error, aspect="auto", interpolation="nearest", cmap=colours, norm=SCALE)
        axis.set(xlabel="head dim", title=f"|{name} - ref|")
    figure.colorbar(image, ax=axes[len(maps) - 1]).minorticks_off()
    for name, axis in zip(rows, axes[len(maps) :], strict=True):
        error = _error(got[name], want[name])
        lost = np.flatnonzero(~np.isfinite(error))
        axis.axvline(0, color="gray", linewidth=0.8)
        axis.plot(error, np.arange(len(error)), ".", markersize=3)
        axis.plot(np.zeros(len(lost)), lost, "rx")
        axis.set(title=f"{name} - ref")
        axis.locator_params(axis="x", nbins=3)
        axis.ticklabel_format(axis="x", scilimits=(0, 0))
    _mark_rows(case, list(axes))
    png = io.BytesIO()
    figure.savefig(png, format="png")
    return png.getvalue()


def _error(got: Array, want: Array) -> Array:
    """Return got - want: 0 if both are NaN or the same infinity, NaN if only one of them is."""
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.where(same, 0.0, got - want)
    return np.where(np.isfinite(error), error, np.nan)


def _mark_rows(case: Case, axes: list[Axes]) -> None:
    """Draw lines between row tiles and between warps; label the first row of each tile with token and head."""
    rows = np.arange(case.batch * case.tokens * case.heads)
    names = coordinates(case, rows)
    parts = ("sequence", "token", "row tile") if case.by_token else ("sequence", "row tile")
    tile = np.stack([names[part] for part in parts])
    starts = np.flatnonzero(np.any(np.diff(tile, prepend=-1), axis=0))
    maps = [axis for axis in axes if axis.images]
    ends = [*starts[1:], len(rows)]
    step = callers[-1].tiles(case).rows_of_warp
    warps = [row for span in zip(starts, ends, strict=True) for row in range(*span, step)[1:]]
    for axis in axes:
        colour, across = "white" if axis in maps else "gray", axis.get_yaxis_transform()
        axis.hlines(starts - 0.5, 0, 1, colors=colour, linewidth=1.0, transform=across)
        axis.hlines(np.array(warps) - 0.5, 0, 1, colors=colour, linewidth=0.6, linestyle=":", transform=across)
    shown = starts[:: -(-len(starts) // MOST_LABELS)]
    labels = [
        "\n".join(f"{name} {names[name][row]}" for name in ("sequence", "token", "head") if names[name].max() > 0)
        for row in shown
    ]
    axes[0].set_yticks(shown, labels, fontsize=8)
    axes[0].set(ylabel="solid lines separate row tiles, dotted lines warps")
