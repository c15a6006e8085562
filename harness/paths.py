"""Paths of the project, its results, and the cache of compiled kernels."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
KEPT = RESULTS / ".sim/kernels"
