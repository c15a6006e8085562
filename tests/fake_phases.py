"""Fakes of the phases `record_calls` and `run` of harness/judge. They obey kernel/fmha.py and end quickly."""

from __future__ import annotations

import argparse
import ctypes
import os
import runpy
import shutil
import signal
import subprocess
import sys
import time
from itertools import count
from pathlib import Path
from typing import Any

from harness.report.record import (
    Case,
    Compile,
    Figure,
    Launch,
    NegativeControl,
    Outcome,
    Phase,
    Record,
    Tree,
    load,
    now,
)

PIN, MOST_Z, CASE = 0.999997, 8.5, "hd=64"
MODES = ("eager", "lazy", "random")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("milestone")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device")
    parser.add_argument("--target")
    parser.add_argument("--wait", action="store_true")
    parser.add_argument("--commit")
    parser.add_argument("--again", type=Path)
    parser.add_argument("--sample", type=int)
    parser.add_argument("--beside", nargs="*", default=[])
    parser.add_argument("--case")
    parser.add_argument("--seeds", nargs="+")
    parser.add_argument("--compile-only", action="store_true")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    kernel = Kernel(options.milestone)
    if Path(__file__).stem == "run":
        return judge(options, kernel)
    if Path(__file__).stem == "again":
        holds = (kernel["z"] or 1.0) <= MOST_Z
        print(f"the accepted kernel, {options.case} seeds={options.seeds}: z = {kernel['z']}", flush=True)
        return 0 if holds else 21
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout
    record = Record(options.out.name, options.milestone, options.target, now(), Tree(commit.strip(), []))
    record.phases.append(Phase("compile", now()))
    record.save(options.out)
    time.sleep(kernel["compile_waits"] or 0.0)
    while kernel["compile_hang"]:
        pass
    if kernel["compiles_s"]:
        compile_beside_each_other(kernel["compiles_s"])
    if (
        kernel["meets"]
        and options.out.parent.name != "home"
        and not appears(options.out / "judge.txt", kernel["meets"])
    ):
        print("nobody judges yet", flush=True)
        return 12
    if kernel["ends"]:
        os.kill(os.getpid(), -kernel["ends"]) if kernel["ends"] < 0 else sys.exit(kernel["ends"])
    if kernel["fill"]:
        fill(kernel["fill"], options.out)
    if kernel["compile"] == "error":
        print("CompileError: no such layout", flush=True)
        return 12
    record.phases[-1].outcome = "passed"
    record.compiles.append(Compile("hd64", 0.01, []))
    record.save(options.out)
    return 0


def judge(options: argparse.Namespace, kernel: Kernel) -> int:
    """Judge what was recorded: by the settings of the candidate's kernel, in the folder that phases run in."""
    if kernel["meets"]:
        (options.out / "judge.txt").touch()
    fresh = int(sys.stdin.readline())
    record = load(options.out)
    record.phases.append(Phase("stage", now()))
    record.save(options.out)
    misbehave(kernel, options.out)
    cosine, z = kernel["cosine"], kernel["z"] or 1.0
    holds = cosine >= PIN and z <= MOST_Z
    for seed in (0, fresh):
        figures = [
            Figure("O", "cosine", cosine, "at least", PIN, cosine >= PIN),
            Figure("O", "z", z, "at most", MOST_Z, z <= MOST_Z),
        ]
        launches = [Launch(mode, 0.01) for mode in (MODES[:1] if seed == 0 else MODES)]
        outcome: Outcome = "passed" if holds else "failed"
        record.cases.append(Case(CASE, outcome, 0.01, seed, seed != 0, launches, figures))
    record.proven[CASE] = ["both products in one launch"]
    for other in options.beside:
        record.cases.append(Case(f"{other} {CASE}", outcome, 0.01, fresh, True, launches[:1], figures))
        record.proven[f"{other} {CASE}"] = ["both products in one launch"]
    record.negative_controls.append(NegativeControl(f"{CASE}: scaled by 2", True, "O.cosine"))
    record.phases[-1].outcome = "passed" if holds else "failed"
    record.verdict = "ACCEPT" if holds else "REJECT_STAGE"
    record.reason = "" if holds else f"cosine {cosine} < {PIN}"
    record.save(options.out)
    print(f"{options.milestone}: {record.verdict}", flush=True)
    return 0 if holds else 11


class Kernel:
    """The settings of the kernel: `name`, or `name_D1_2` for one milestone."""

    def __init__(self, milestone: str) -> None:
        self.settings = runpy.run_path("kernel/fmha.py")
        self.suffix = "_" + milestone.replace(".", "_")

    def __getitem__(self, name: str) -> Any:
        return self.settings.get(name + self.suffix, self.settings.get(name))


def appears(path: Path, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    return path.exists()


def compile_beside_each_other(cpu_s: float) -> None:
    """Let four processes take so many seconds of CPU time each."""
    busy = f"import time\nwhile time.process_time() < {cpu_s}: pass"
    compiling = [subprocess.Popen([sys.executable, "-c", busy]) for _ in range(4)]
    for process in compiling:
        process.wait()


def misbehave(kernel: Kernel, out: Path) -> None:
    if kernel["shout"]:
        print(kernel["shout"], flush=True)
    if kernel["sleep"]:
        time.sleep(kernel["sleep"])
    if kernel["spawn"]:
        subprocess.Popen(["setsid", "sleep", str(kernel["spawn"])])
    if kernel["vandal"]:
        Path(kernel["vandal"]).write_text("vandalised\n")
    match kernel["hang"]:
        case "sleep":
            time.sleep(3600)
        case "gil":
            ctypes.PyDLL(None).sleep(3600)
        case "deaf":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            while True:
                time.sleep(1)
    if kernel["eat"]:
        print(len(bytearray(kernel["eat"])), flush=True)
    if kernel["die"]:
        os.kill(os.getpid(), kernel["die"])
    if kernel["exit"] is not None:
        os._exit(kernel["exit"])


def fill(way: str, out: Path) -> None:
    """Write until the disk is full. "later": first wait until another process has left 2 MiB."""
    (folder := out / "filler").mkdir()
    while way == "later" and shutil.disk_usage(out).free > 2 << 20:
        time.sleep(0.02)
    try:
        for number in count():
            (folder / str(number)).write_bytes(b"x" * (0 if way == "many files" else 1 << 20))
    finally:
        folder.chmod(0 if way == "a closed folder" else 0o755)


if __name__ == "__main__":
    sys.exit(main())
