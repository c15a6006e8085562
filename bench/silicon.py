"""`make silicon`: what this machine's NVIDIA GPU answers beside the emulator, as one report.

Runs every test that is marked `gpu`: the same PTX on both sides, bit by bit, and broken programs on the GPU alone; then
the clock's microbenchmarks, beside the clock of a chip of that name. Writes a report in Markdown, tests.xml and
microbenchmarks.csv to results/silicon-<GPU>/. Ends with 1 if the two differ, 2 where no GPU is.
"""

from __future__ import annotations

import ast
import csv
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from xml.etree import ElementTree

from bench import clock, microbenchmarks
from bench.gpu import TimedGpu
from emulator.clock.chips import FOLDER, chip

ROOT = Path(__file__).resolve().parents[1]
TESTS = ("tests/emulator/test_silicon.py", "tests/emulator/test_silicon_races.py")
FACTS = ("name", "compute_cap", "driver_version", "clocks.max.sm", "power.limit")
MOST_WORKERS = 12


def facts() -> list[str] | None:
    """What nvidia-smi says of the first GPU, None where there is none."""
    command = ["nvidia-smi", f"--query-gpu={','.join(FACTS)}", "--format=csv,noheader"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return [word.strip() for word in said.splitlines()[0].split(",")]


def properties(case: ElementTree.Element) -> dict[str, str]:
    """What a test recorded."""
    return {p.attrib["name"]: p.attrib["value"] for p in case.iter("property")}


@dataclass(frozen=True)
class Timing:
    """One microbenchmark: cycles of one of a round, measured here and by the clock, None where it has no such chip."""

    kind: str
    shown: str
    measured: float
    predicted: float | None


def timings(gpu: TimedGpu, name: str) -> Iterator[Timing | str]:
    """Each microbenchmark; what the GPU's compiler refuses is one sentence a kind."""
    model = chip(name) if (FOLDER / f"{name}.toml").is_file() else None
    for kind in microbenchmarks.KINDS:
        for row in microbenchmarks.rows(kind.file):
            micro = kind.program(row)
            try:
                measured = gpu.cycles(micro)
            except gpu.Refused as why:
                yield f"{kind.name}: left out, {why}"
                break
            shown = " ".join(f"{column}={value}" for column, value in row.items() if column not in ("cycles", "once"))
            yield Timing(kind.name, shown, measured, None if model is None else clock.hopper_cycles(micro, model))


def timing_lines(found: Sequence[Timing | str]) -> Iterator[str]:
    """Markdown: of each kind the points, the mean and the worst error of the clock."""
    yield from (
        "## Microbenchmarks",
        "",
        "| kind | points | mean error of the clock | worst | at |",
        "|---|---|---|---|---|",
    )
    kinds: dict[str, list[Timing]] = {}
    for timing in found:
        if isinstance(timing, Timing):
            kinds.setdefault(timing.kind, []).append(timing)
    for kind, timed in kinds.items():
        errors = [(t.predicted / t.measured - 1, t.shown) for t in timed if t.predicted is not None]
        if errors:
            mean, (worst, at) = sum(abs(e) for e, _ in errors) / len(errors), max(errors, key=lambda e: abs(e[0]))
            yield f"| {kind} | {len(timed)} | {mean:.1%} | {worst:+.1%} | {at} |"
        else:
            yield f"| {kind} | {len(timed)} | the clock has no such chip | | |"
    yield ""
    yield from (f"- {text}" for text in found if isinstance(text, str))


def report(gpu: list[str], cases: list[ElementTree.Element]) -> str:
    """Markdown: the GPU, how many tests agreed, what became of each broken program."""
    kinds: dict[str, Counter[str]] = {}
    for case in cases:
        state = "differs" if case.find("failure") is not None or case.find("error") is not None else "agrees"
        kinds.setdefault(case.attrib["name"].partition("[")[0], Counter())[state] += 1
    lines = [f"# The emulator beside an {gpu[0]}", ""]
    lines += [f"- {fact}: {value}" for fact, value in zip(FACTS, gpu, strict=True)]
    lines += ["", "| tests | agree | differ |", "|---|---|---|"]
    lines += [f"| {name} | {count['agrees']} | {count['differs']} |" for name, count in kinds.items()]
    lines += ["", "## Broken programs", ""]
    lines += ["| what is broken | program | the emulator | level | here |", "|---|---|---|---|---|"]
    for case in cases:
        known = properties(case)
        if "report" in known:
            here = ", ".join(f"{how} {n}" for how, n in ast.literal_eval(known["outcome"]).items())
            name = case.attrib["name"].partition("[")[2].rstrip("]")
            reported = known["report"].replace(" ", " or ")
            lines.append(f"| {name} | {known['program']} | {reported} | {known['level']} | {here} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run, write, and say where."""
    gpu = facts()
    if gpu is None:
        print("no NVIDIA GPU here: nvidia-smi names none", file=sys.stderr)
        return 2
    to = ROOT / "results" / f"silicon-{gpu[0].split()[-1].lower()}"
    to.mkdir(parents=True, exist_ok=True)
    workers = min(os.cpu_count() or 1, MOST_WORKERS)
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", f"--numprocesses={workers}", "--dist=worksteal"]
    done = subprocess.run([*command, f"--junitxml={to / 'tests.xml'}", *TESTS], cwd=ROOT, check=False)
    cases = list(ElementTree.parse(to / "tests.xml").iter("testcase"))
    page = (to / "report").with_suffix(".md")
    found = list(timings(TimedGpu(), to.name.removeprefix("silicon-")))
    with (to / "microbenchmarks.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([field.name for field in fields(Timing)])
        writer.writerows(astuple(timing) for timing in found if isinstance(timing, Timing))
    page.write_text(report(gpu, cases) + "\n" + "\n".join(timing_lines(found)) + "\n")
    print(page)
    return 1 if done.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
