"""Warps and barriers over modelled time."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
from PIL import Image

from harness.report.timeline import FIRST_CTA, picture

ROLES = {0: "softmax", 1: "mma"}


def event(tid: int, name: str, start: float, cycles: float, line: int = 1) -> dict[str, Any]:
    args = {"PTX line": line}
    return {"name": name, "ph": "X", "ts": start, "dur": cycles, "pid": FIRST_CTA, "tid": tid, "args": args}


def drawn(*named: int) -> np.ndarray:
    """Make a trace of the tensor core and of two warps, one of which waits for the other."""
    tracks = {0: "warp 0", 1: "warp 1", 100: "tensor core"}
    events = [
        event(0, "runs", 0, 40),
        event(1, "runs", 5, 0),
        event(0, "waits for p_full", 40, 60, 7),
        event(100, "tcgen05.mma", 10, 20),
    ]
    names = [
        {"name": "thread_name", "ph": "M", "pid": FIRST_CTA, "tid": tid, "args": {"name": name}}
        for tid, name in tracks.items()
    ]
    png = picture(json.dumps({"traceEvents": [*events, *names]}), ROLES, named)
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)


def share(pixels: np.ndarray, colour: tuple[int, int, int]) -> float:
    return float((np.abs(pixels - colour).sum(2) < 12).mean())


def test_what_runs_waits_and_is_taken_has_its_colour_by_its_length() -> None:
    pixels = drawn()
    runs, waits, engine, barrier = (
        share(pixels, colour) for colour in ((59, 130, 214), (168, 168, 168), (47, 158, 99), (217, 130, 43))
    )
    assert 0.6 < runs / waits < 0.75 and 0.4 < engine / runs < 0.6 and 0.9 < barrier / waits < 1.1


def test_a_line_that_a_report_names_is_marked() -> None:
    red = (192, 48, 58)
    assert share(drawn(7), red) > 3 * share(drawn(8), red)
