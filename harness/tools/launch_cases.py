"""Launch the cases of a milestone, or the shapes of stages/shapes.py, on the device that is current.

A script for `ptx-emulator time`, also for two commits: `make perf D1.4 BASE=main HEAD=mine`.
"""

import argparse

import torch

from stages.catalog import runnable
from stages.inputs import draw
from stages.launch import launch
from stages.shapes import find

parser = argparse.ArgumentParser(prog="harness/tools/launch_cases.py", description=__doc__)
parser.add_argument("milestone", nargs="?", default="", help="launch the cases of a milestone, D1.4 for example")
parser.add_argument(
    "--shape", default="", help="launch the shapes of stages/shapes.py that match, as in 'decode-64h-*'"
)
options = parser.parse_args()
if bool(options.milestone) == bool(options.shape):
    parser.error("give a milestone such as D1.4, or --shape NAME")
try:
    cases = runnable(options.milestone).load().CASES if options.milestone else ()
    shapes = find(options.shape) if options.shape else ()
except ValueError as why:
    parser.error(str(why))
for case in cases:
    launch(case, draw(case, 1), "cuda")
for shape in shapes:
    shape.prepared(torch.zeros, "cuda")()
