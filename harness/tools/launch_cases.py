"""Launch the cases of a milestone, or the shapes of stages/shapes.py, on the device that is current.

A script for `ptx-emulator time`, also for two commits: `make perf D1.4 BASE=main HEAD=mine`. With --case it also writes
what the outputs should be, for `ptx-emulator blame`, whose command a rejected run prints.
"""

import argparse

import numpy as np
import torch

from harness.paths import RESULTS
from stages.calls import callers
from stages.catalog import runnable
from stages.expected import reference
from stages.inputs import draw
from stages.launch import launch, outputs, placed
from stages.shapes import find

EXPECTED = {"O": "expected-o.npy", "U": "expected-u.npy", "lse": "expected-lse.npy", "m": "expected-m.npy"}

parser = argparse.ArgumentParser(prog="harness/tools/launch_cases.py", description=__doc__)
parser.add_argument("milestone", nargs="?", default="", help="launch the cases of a milestone, D1.4 for example")
parser.add_argument(
    "--shape", default="", help="launch the shapes of stages/shapes.py that match, as in 'decode-64h-*'"
)
parser.add_argument("--case", default="", help="launch this one case, and write its expected outputs to results/")
parser.add_argument("--seed", type=int, default=1, help="the seed of the inputs (default: %(default)s)")
options = parser.parse_args()
if bool(options.milestone) == bool(options.shape):
    parser.error("give a milestone such as D1.4, or --shape NAME")
try:
    cases = runnable(options.milestone).load().CASES if options.milestone else ()
    shapes = find(options.shape) if options.shape else ()
except ValueError as why:
    parser.error(str(why))
if options.case:
    named = [case for case in cases if case.name == options.case]
    if not named:
        parser.error(f"--case {options.case!r}: {options.milestone} has {', '.join(case.name for case in cases)}")
    (case,), cases = named, ()
    inputs = draw(case, options.seed)
    tensors = placed(case, inputs, "cuda")
    buffers = [each.attention for each in outputs(case, tensors["q"])]
    o, u, lse, m = buffers[0].o, buffers[0].u, buffers[0].lse, buffers[0].m  # the names that `blame` takes
    RESULTS.mkdir(exist_ok=True)
    for name, want in reference(case, inputs).items():
        like = {"O": o, "U": u, "lse": lse, "m": m}[name]
        if like is not None:
            np.save(RESULTS / EXPECTED[name], want.reshape(like.shape))
    callers[-1].call(case, tensors, buffers)
for case in cases:
    launch(case, draw(case, options.seed), "cuda")
for shape in shapes:
    shape.prepared(torch.zeros, "cuda")()
