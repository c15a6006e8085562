"""`python -m lab.bugs.gpu TOOL... > FILE`: the corpus on this machine's GPU, bare and under compute-sanitizer.

A TOOL is `bare` or one of compute-sanitizer's. Each program is launched with and without its bugs, in a process of its
own, because a fault or a hang ends the process. Programs that the GPU's compiler rejects are left out. The output is
CSV, a row for each run as it ends.
"""

from __future__ import annotations

import csv
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Final

import numpy as np

from lab.gpu import INVALID_PTX, NO_BINARY, DriverError, Gpu, Job

from .corpus import bugs
from .programs import PROGRAMS, text

LAUNCHES: Final = 60
PATIENCE_S: Final = 20.0
WORKERS: Final = 12
REJECTED: Final = "rejected"
HEAD: Final = ("program", "bug", "tool", "outcome")
SUMMARY: Final = re.compile(r"SUMMARY: (\d+) (hazard|error)")
COUNTED: Final = re.compile(r"^\d+ of \d+ wrong|^error \d+|^rejected", re.MULTILINE)


def main(tools: list[str]) -> None:
    """Run all programs under the tools and print a row for each."""
    runs = [(bug.program, bug.name, tool) for bug in bugs() for tool in tools]
    runs += [(program, "", tool) for program in PROGRAMS for tool in tools]
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(HEAD)
    with ThreadPoolExecutor(WORKERS) as pool:
        started = {pool.submit(_outcome, *run): run for run in runs if "tcgen05" not in text(run[0])}
        for done in as_completed(started):
            if done.result() != REJECTED:
                out.writerow((*started[done], done.result()))
                sys.stdout.flush()


def _outcome(program: str, bug: str, tool: str) -> str:
    """Run one program in a process. Return the count of wrong launches, or what the tool or the driver reports."""
    under = () if tool == "bare" else ("compute-sanitizer", "--tool", tool)
    command = [*under, sys.executable, "-m", __spec__.name, "launch", program, bug]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        return "hang"
    found = SUMMARY.search(ended.stdout) if under else COUNTED.search(ended.stdout)
    rejected = REJECTED in ended.stdout.split()
    if rejected or found is None:
        return REJECTED if rejected else f"no answer: {(ended.stderr or ended.stdout).strip()[-200:]}"
    return found[0] if not under else f"{found[1]} {found[2]}{'s' * (found[1] != '1')}"


def launch(program: str, bug: str) -> str:
    """Launch a program LAUNCHES times. Return how many outputs were wrong, or the first error."""
    what, wrong = PROGRAMS[program], 0
    try:
        gpu = Gpu()
        for _ in range(LAUNCHES):
            inputs = what.inputs()
            expected = np.ascontiguousarray(what.expected(inputs))
            wrong += gpu.run(_job(program, bug, [*inputs, np.zeros_like(expected)]))[1][-1] != expected.tobytes()
    except DriverError as error:
        return REJECTED if error.code in (NO_BINARY, INVALID_PTX) else f"error {error.code}"
    return f"{wrong} of {LAUNCHES} wrong"


def _job(program: str, bug: str, arrays: list[np.ndarray]) -> Job:
    """Return a launch of a program on arrays."""
    what, code = PROGRAMS[program], text(program, bug or None)
    entry = re.search(r"\.entry\s+(\w+)", code)
    assert entry is not None
    contiguous = [np.ascontiguousarray(array) for array in arrays]
    addresses = [array.ctypes.data for array in contiguous]
    return Job(
        text=code,
        name=entry[1],
        grid=(what.ctas, 1, 1),
        block=(what.threads, 1, 1),
        cluster=(what.ctas, 1, 1) if what.cluster else None,
        shared=0,
        parameters=tuple(address.to_bytes(8, "little") for address in addresses),
        spans=tuple((array.ctypes.data, array.nbytes) for array in contiguous),
        before=tuple(array.tobytes() for array in contiguous),
        maps=frozenset({0} if program == "grouped" else ()),
        optimisation=4,
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["launch"]:
        print(launch(*sys.argv[2:4]))
    else:
        main(sys.argv[1:])
