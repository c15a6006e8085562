"""Pictures of the errors of a case: maps of O and U over rows and head dim, and plots of lse and m over rows.

All pictures have the same colour scale, so that runs can be compared. Solid lines separate the row tiles that a CTA
computes, and dotted lines the 32 rows of each softmax warp.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from harness.report.canvas import FAINT, Canvas, text_width
from stages.calls import callers
from stages.case import Case
from stages.check import compared
from stages.expected import Outputs
from stages.locate import coordinates
from stages.metrics import Array

TOP, BOTTOM, HEIGHT = 24, 292, 346
MAP, PLOT, BETWEEN, SCALE = 200, 130, 20, 64
#: Orders of magnitude of the colour scale: errors from 1e-6 to 1.
DECADES = 6
#: Nine colours of the map "viridis", evenly spaced.
COLOURS = np.array(
    [
        *((68, 1, 84), (71, 44, 122), (59, 81, 139)),
        *((44, 113, 142), (33, 144, 141), (39, 173, 129)),
        *((92, 200, 99), (170, 220, 50), (253, 231, 37)),
    ]
)
RED, DOT, ON_MAP = (255, 0, 0), "#1f77b4", "white"
MOST_LABELS = 16
CAPTION = "solid lines separate row tiles, dotted lines warps; red: NaN or infinite on one side only"


@dataclass(frozen=True)
class Rows:
    """The rows of a picture: their number, the first rows of tiles and of warps within tiles, and labels of some."""

    count: int
    tiles: list[int]
    warps: list[int]
    labels: dict[int, str]

    def y(self, row: float) -> float:
        """Return the upper edge of a row in the picture."""
        return TOP + row * (BOTTOM - TOP) / self.count


def error_picture(case: Case, got: Outputs, want: Outputs) -> bytes:
    """Return a PNG of the errors of all results of `case`. Values that are not finite on one side only are red."""
    maps: list[str] = [name for name in ("O", "U") if name in want]
    plots: list[str] = [name for name in ("lse", "m") if name in want]
    rows = _rows(case)
    first = left = 16 + max(text_width(label) for label in rows.labels.values())
    canvas = Canvas(left + len(maps) * (MAP + BETWEEN) + SCALE + len(plots) * (PLOT + BETWEEN), HEIGHT)
    for row, label in rows.labels.items():
        canvas.text(left - 6, rows.y(row), label, "ra")
    for name in maps:
        canvas.text(left + MAP / 2, TOP - 6, f"|{name} - ref|", "mb", 14)
        error = np.abs(_error(compared(name, got), compared(name, want)))
        canvas.image.paste(Image.fromarray(coloured(error, MAP, BOTTOM - TOP)), (left, TOP))
        _axes(canvas, rows, left, left + MAP, ON_MAP)
        canvas.ticks(left, left + MAP, BOTTOM, 0, error.shape[1], 4)
        left += MAP + BETWEEN
    _colour_scale(canvas, left - BETWEEN + 8)
    left += SCALE
    for name in plots:
        canvas.text(left + PLOT / 2, TOP - 6, f"{name} - ref", "mb", 14)
        _plot(canvas, rows, left, _error(got[name], want[name]))
        left += PLOT + BETWEEN
    canvas.text(first, HEIGHT - 4, CAPTION, "lb")
    return canvas.png()


def coloured(error: Array, width: int, height: int) -> NDArray[np.uint8]:
    """Return colours [height, width, 3] of errors [rows, columns]. Where several share a pixel, the largest counts."""
    largest = _fitted(_fitted(error, height).T, width).T
    with np.errstate(divide="ignore", invalid="ignore"):
        place = np.clip(1 + np.log10(largest) / DECADES, 0, 1) * (len(COLOURS) - 1)
    anchors = np.arange(len(COLOURS))
    colours = np.stack([np.interp(place, anchors, COLOURS[:, i]) for i in range(3)], axis=-1)
    return np.where(np.isnan(largest)[..., None], RED, colours).astype(np.uint8)


def _fitted(array: Array, length: int) -> Array:
    """Return the array with `length` rows: repeated, or the maximum of several. NaN is the largest of all."""
    edges = np.arange(length) * len(array) // length
    if len(array) <= length:
        return array[edges]
    fitted: Array = np.maximum.reduceat(array, edges)
    return fitted


def _error(got: Array, want: Array) -> Array:
    """Return got - want: 0 if both are NaN or the same infinity, NaN if only one of them is."""
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.where(same, 0.0, got - want)
    return np.where(np.isfinite(error), error, np.nan)


def _rows(case: Case) -> Rows:
    """Return the rows of a case; the first row of a tile is labelled with sequence, token and head."""
    rows = np.arange(case.batch * case.tokens * case.heads)
    names = coordinates(case, rows)
    parts = ("sequence", "token", "row tile") if case.by_token else ("sequence", "row tile")
    starts = np.flatnonzero(np.any(np.diff(np.stack([names[part] for part in parts]), prepend=-1), axis=0)).tolist()
    step = callers[-1].tiles(case).rows_of_warp
    spans = zip(starts, [*starts[1:], len(rows)], strict=True)
    shown = [name for name in ("sequence", "token", "head") if name == "head" or names[name].max() > 0]
    labels = {
        row: ", ".join(f"{name} {names[name][row]}" for name in shown)
        for row in starts[:: -(-len(starts) // MOST_LABELS)]
    }
    return Rows(len(rows), starts[1:], [row for span in spans for row in range(*span, step)[1:]], labels)


def _axes(canvas: Canvas, rows: Rows, left: int, right: int, colour: str) -> None:
    """Draw the frame of a panel, and the lines between row tiles and between warps."""
    canvas.frame(left, TOP, right, BOTTOM)
    for row in rows.tiles:
        canvas.draw.line((left, rows.y(row), right - 1, rows.y(row)), colour)
    for row in rows.warps:
        canvas.draw.point([(x, rows.y(row)) for x in range(left, right, 3)], colour)


def _colour_scale(canvas: Canvas, left: int) -> None:
    height = BOTTOM - TOP
    ramp = 10.0 ** (DECADES * (np.arange(height)[::-1] / (height - 1) - 1))
    canvas.image.paste(Image.fromarray(coloured(ramp[:, None], 12, height)), (left, TOP))
    canvas.frame(left, TOP, left + 12, BOTTOM)
    for i in range(DECADES + 1):
        canvas.text(left + 18, TOP + i * (height - 1) / DECADES, f"1e-{i}" if i else "1", "lm")


def _plot(canvas: Canvas, rows: Rows, left: int, error: Array) -> None:
    """Draw a dot for each row's error, and a cross at 0 for one that is not finite."""
    right, lost = left + PLOT, ~np.isfinite(error)
    most = float(np.max(np.abs(error), initial=0.0, where=~lost)) or 1.0
    power = 10.0 ** math.floor(math.log10(most))
    _axes(canvas, rows, left, right, FAINT)
    middle, half = (left + right) / 2, PLOT / 2 - 6
    canvas.draw.line((middle, TOP, middle, BOTTOM), FAINT)
    for row, x in enumerate(error):
        y = rows.y(row + 0.5)
        if lost[row]:
            canvas.draw.line((middle - 3, y - 3, middle + 3, y + 3), RED)
            canvas.draw.line((middle - 3, y + 3, middle + 3, y - 3), RED)
        else:
            at = middle + half * x / most
            canvas.draw.rectangle((at - 1, y - 1, at + 1, y + 1), DOT)
    canvas.ticks(middle - half, middle + half, BOTTOM, -most / power, most / power, 4)
    canvas.text(right, BOTTOM + 20, f"times {power:.0e}", "rt")
