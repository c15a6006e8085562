"""Where the project and its results lie."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
KEPT = RESULTS / ".sim/kernels"
