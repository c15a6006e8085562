"""Stands in for `harness/run.py` in the test project: obeys the settings in kernel/fmha.py, and ends soon."""

import argparse
import ctypes
import os
import runpy
import subprocess
import sys
import time
from pathlib import Path

from harness.record import Case, Compile, Phase, Record, Tree, now

PIN = 0.999997


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("milestone")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", required=True)
    parser.add_argument("--target", required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout
    record = Record("stand-in", options.milestone, options.target, now(), Tree(commit.strip(), []))
    kernel = runpy.run_path("kernel/fmha.py")
    mine = {
        k: kernel.get(f"{k}_{options.milestone.replace('.', '_')}", kernel.get(k))
        for k in (
            "cosine",
            "sleep",
            "hang",
            "compile",
            "compile_hang",
            "exit",
            "fill",
            "die",
            "spawn",
            "vandal",
            "shout",
        )
    }
    record.phases.append(Phase("compile", now()))
    record.save(options.out)
    if mine["compile_hang"]:
        time.sleep(3600)
    if mine["compile"] == "error":
        return 12
    record.phases[-1].outcome = "passed"
    record.compiles.append(Compile("hd64", 0.01, []))
    record.phases.append(Phase("D1.1 cases", now()))
    record.save(options.out)
    misbehave(mine, options.out)
    holds = mine["cosine"] >= PIN
    record.cases.append(Case("seed 0", "passed" if holds else "failed", 0.01))
    record.phases[-1].outcome = "passed" if holds else "failed"
    record.verdict = "ACCEPT" if holds else "REJECT_STAGE"
    record.reason = "" if holds else f"cosine {mine['cosine']} < {PIN}"
    record.save(options.out)
    print(f"{options.milestone}: {record.verdict}", flush=True)
    return 0 if holds else 11


def misbehave(mine: dict, out: Path) -> None:
    if mine["shout"]:
        print(mine["shout"], flush=True)
    if mine["sleep"]:
        time.sleep(mine["sleep"])
    if mine["spawn"]:
        subprocess.Popen(["setsid", "sleep", str(mine["spawn"])])
    if mine["vandal"]:
        Path(mine["vandal"]).write_text("vandalised\n")
    if mine["hang"] == "sleep":
        time.sleep(3600)
    if mine["hang"] == "gil":
        ctypes.PyDLL(None).sleep(3600)
    if mine["hang"] == "deaf":
        import signal

        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            time.sleep(1)
    if mine["fill"]:
        with open(out / "filler", "wb") as stream:
            while True:
                stream.write(b"x" * (1 << 20))
                stream.flush()
    if mine["die"]:
        os.kill(os.getpid(), mine["die"])
    if mine["exit"] is not None:
        os._exit(mine["exit"])


if __name__ == "__main__":
    sys.exit(main())
