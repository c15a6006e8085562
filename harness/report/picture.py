"""Where the error of a case lies, as one PNG: |O - ref| over the tile, and the lse error of every row."""

import io

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

from stages.case import Outputs

INCHES = (10.0, 4.8)
DPI = 80


def error_picture(got: Outputs, want: Outputs) -> bytes:
    """A PNG of O's error [rows, head_dim] beside lse's [rows]. What is not a number is drawn in red."""
    figure = Figure(figsize=INCHES, dpi=DPI, layout="constrained")
    tile, rows = figure.subplots(1, 2, width_ratios=(3, 2), sharey=True)
    error = np.abs(got["O"] - want["O"])
    colours = colormaps["viridis"].with_extremes(bad="red")
    image = tile.imshow(error, aspect="auto", interpolation="nearest", cmap=colours)
    figure.colorbar(image, ax=tile)
    tile.set(xlabel="head dim", ylabel="query row", title="|O - ref|")
    lse_error = np.subtract(got["lse"], want["lse"], where=got["lse"] != want["lse"], out=np.zeros_like(want["lse"]))
    lost = np.flatnonzero(~np.isfinite(lse_error))
    rows.axvline(0, color="gray", linewidth=0.8)
    rows.plot(lse_error, np.arange(len(lse_error)), ".", markersize=4)
    rows.plot(np.zeros(len(lost)), lost, "rx")
    rows.set(xlabel="lse - ref", title="lse error per row")
    png = io.BytesIO()
    figure.savefig(png, format="png")
    return png.getvalue()
