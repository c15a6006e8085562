"""`make silicon`: compare this machine's NVIDIA GPU with the emulator and write a report.

1. Run the tests marked `gpu`: the same PTX on both sides, compared bit by bit, and broken programs on the GPU.
2. Run the clock's microbenchmarks and compare them with the clock of the chip of that name, if there is one.
3. If the GPU can run the kernel, run every milestone and compare its first case's time with the pinned prediction.

What the GPU does not support is skipped and listed. The files are written to results/silicon-<GPU>/: report.md,
tests.xml, microbenchmarks.csv and a folder per milestone. The exit code is 1 if something differs or a milestone is
rejected, 2 if there is no GPU.
"""

from __future__ import annotations

import ast
import csv
import json
import os
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from xml.etree import ElementTree

from emulator.clock.chips import FOLDER, chip
from lab import blackwell, clock, microbenchmarks
from lab.gpu import TimedGpu

ROOT = Path(__file__).resolve().parents[1]
TESTS = ("tests/emulator/test_silicon.py", "tests/emulator/test_silicon_races.py")
FACTS = ("name", "compute_cap", "driver_version", "clocks.max.sm", "power.limit")
MOST_WORKERS = 12
KERNEL_RUNS_ON = {"10.0": ("b200", "cycles.toml"), "9.0": ("h200", "cycles.h200.toml")}
"""The chip of each compute capability that the kernel is written for, and the file in stages/ with its predictions."""
Microbenchmarks = tuple[str, Callable[[microbenchmarks.Row], microbenchmarks.Micro], Sequence[microbenchmarks.Row]]
KINDS: tuple[Microbenchmarks, ...] = (
    *((k.name, k.program, microbenchmarks.rows(k.file)) for k in microbenchmarks.KINDS),
    *blackwell.KINDS,
)
"""The microbenchmarks: name, program of a row, rows."""


def facts() -> list[str] | None:
    """Return nvidia-smi's facts about the first GPU, None if there is no GPU."""
    command = ["nvidia-smi", f"--query-gpu={','.join(FACTS)}", "--format=csv,noheader"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return [word.strip() for word in output.splitlines()[0].split(",")]


def properties(case: ElementTree.Element) -> dict[str, str]:
    """Return the properties that a test recorded."""
    return {p.attrib["name"]: p.attrib["value"] for p in case.iter("property")}


RESULTS = ("cycles", "once", "cycles_each")
"""Columns with earlier measurements."""


@dataclass(frozen=True)
class Timing:
    """One microbenchmark: cycles of one operation, measured and predicted (None if the clock has no such chip)."""

    kind: str
    shown: str
    measured: float
    predicted: float | None


def timings(gpu: TimedGpu, name: str) -> Iterator[Timing | str]:
    """Yield each microbenchmark, or one sentence for a kind that the GPU's compiler does not support."""
    model = chip(name) if (FOLDER / f"{name}.toml").is_file() else None
    for kind, program, rows in KINDS:
        for row in rows:
            micro = program(row)
            try:
                measured = gpu.cycles(micro)
            except gpu.Unsupported as why:
                yield f"{kind}: left out, {why}"
                break
            shown = " ".join(f"{column}={value}" for column, value in row.items() if column not in RESULTS)
            yield Timing(kind, shown, measured, None if model is None else clock.round_cycles(micro, model))


def timing_lines(found: Sequence[Timing | str]) -> Iterator[str]:
    """Yield a Markdown table: for each kind the number of points and the clock's mean and worst error."""
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


@dataclass(frozen=True)
class Ruling:
    """A milestone on this GPU: its verdict, and its first case's measured and predicted time."""

    milestone: str
    verdict: str
    case: str = ""
    measured_us: float | None = None
    predicted_us: float | None = None


def milestones(gpu: Sequence[str], to: Path) -> Iterator[Ruling | str]:
    """Run each milestone with `harness.judge` and yield its verdict and times, or yield why all are skipped."""
    if gpu[1] not in KERNEL_RUNS_ON:
        yield f"milestones: left out, the kernel is for compute capability {' and '.join(KERNEL_RUNS_ON)}"
        return
    on, file = KERNEL_RUNS_ON[gpu[1]]
    pins: dict[str, list[float]] = tomllib.loads((ROOT / "stages" / file).read_text())
    for milestone, cycles in pins.items():
        folder = to / milestone
        judge = [sys.executable, "-m", "harness.judge.run", milestone, "--device", "cuda", "--target", to.name]
        subprocess.run([*judge, "--out", str(folder)], cwd=ROOT, check=False)
        measure = [sys.executable, "-m", "harness.judge.measure", milestone, "--out", str(folder)]
        subprocess.run(measure, cwd=ROOT, check=False)
        yield ruling(milestone, folder, cycles[0], on)


def ruling(milestone: str, folder: Path, cycles: float, on: str = "b200") -> Ruling:
    """Read a milestone's verdict and time from its folder. cycles: the prediction for its first case on a chip."""
    try:
        verdict = str(json.loads((folder / "record.json").read_text())["verdict"])
        first = json.loads((folder / "measured.json").read_text())[0]
    except (OSError, LookupError, ValueError) as error:
        return Ruling(milestone, f"no record: {type(error).__name__}")
    times = first["times"]
    predicted_us = cycles / times["sm_mhz"] + chip(on).launch_us if times["sm_mhz"] else None
    return Ruling(milestone, verdict, first["case"], 1e6 * times["median"], predicted_us)


def milestone_lines(found: Sequence[Ruling | str]) -> Iterator[str]:
    """Yield a Markdown table of the milestones, or the reason why they were skipped."""
    yield from ("## Milestones", "")
    ruled = [each for each in found if isinstance(each, Ruling)]
    if ruled:
        yield "| milestone | verdict | first case, L2 cold | measured, us | predicted, us |"
        yield "|---|---|---|---|---|"
    for each in ruled:
        times = (f"{us:,.1f}" if us is not None else "" for us in (each.measured_us, each.predicted_us))
        yield f"| {each.milestone} | {each.verdict} | {each.case} | {' | '.join(times)} |"
    yield from (f"- {text}" for text in found if isinstance(text, str))


def report(gpu: list[str], cases: list[ElementTree.Element]) -> str:
    """Return Markdown: the GPU's facts, counts of agreeing tests, and the outcome of each broken program."""
    kinds: dict[str, Counter[str]] = {}
    left_out: Counter[str] = Counter()
    for case in cases:
        skipped = case.find("skipped")
        if skipped is not None:
            left_out[f"{case.attrib['name']}: {skipped.attrib.get('message', '')}"] += 1
            state = "left out"
        else:
            state = "differs" if case.find("failure") is not None or case.find("error") is not None else "agrees"
        kinds.setdefault(case.attrib["name"].partition("[")[0], Counter())[state] += 1
    lines = [f"# The emulator beside an {gpu[0]}", ""]
    lines += [f"- {fact}: {value}" for fact, value in zip(FACTS, gpu, strict=True)]
    lines += ["", "| tests | agree | differ | left out |", "|---|---|---|---|"]
    lines += [f"| {name} | {n['agrees']} | {n['differs']} | {n['left out']} |" for name, n in kinds.items()]
    lines += ["", *(f"- left out: {each}" for each in left_out)] if left_out else []
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
    """Run everything, write the report, print its path and return the exit code."""
    gpu = facts()
    if gpu is None:
        print("this machine has no NVIDIA GPU: nvidia-smi lists none", file=sys.stderr)
        return 2
    to = ROOT / "results" / f"silicon-{gpu[0].split()[-1].lower()}"
    to.mkdir(parents=True, exist_ok=True)
    workers = min(os.cpu_count() or 1, MOST_WORKERS)
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", f"--numprocesses={workers}", "--dist=worksteal"]
    done = subprocess.run([*command, f"--junitxml={to / 'tests.xml'}", *TESTS], cwd=ROOT, check=False)
    cases = list(ElementTree.parse(to / "tests.xml").iter("testcase"))
    found = list(timings(TimedGpu(), to.name.removeprefix("silicon-")))
    with (to / "microbenchmarks.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([field.name for field in fields(Timing)])
        writer.writerows(astuple(timing) for timing in found if isinstance(timing, Timing))
    ruled = list(milestones(gpu, to))
    page = (to / "report").with_suffix(".md")
    page.write_text("\n".join([report(gpu, cases), *timing_lines(found), "", *milestone_lines(ruled), ""]))
    print(page)
    rejected = any(isinstance(each, Ruling) and each.verdict != "ACCEPT" for each in ruled)
    return 1 if done.returncode or rejected else 0


if __name__ == "__main__":
    sys.exit(main())
