"""Provoke failures on a machine with a GPU, and record what was seen.

`python -m lab.gpu_failures FOLDER --workdir ENV_PARENT` is set up as `python -m lab.gpu_host`, with
a work folder in which nothing was accepted before. Each failure is a change of the Hopper kernel, or an event during a
run. What was seen goes to FOLDER/steps.json.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lab.gpu_host import Machine

GATE_S: Final = 40.0
RUN_S: Final = 150.0
STARTED_S: Final = 60.0
"""The time within which the phase that launches must have started."""
LAUNCHING_S: Final = 2.0
"""The time that this phase is given before it is interrupted: it has imported torch, and launches."""


@dataclass(frozen=True)
class Change:
    """A wrong change of the kernel: text of a file, and its replacement."""

    name: str
    path: str
    old: str
    new: str


CHANGES: Final = (
    Change(
        "a missing wait", "kernel/sm90/consumer.py", "self.p, waits=self.cta.config.loads_v)", "self.p, waits=False)"
    ),
    Change("a wrong result", "kernel/sm90/epilogue.py", "softmax.lag() for", "softmax.lag() * 1.5 for"),
    Change(
        "an illegal address",
        "kernel/sm90/epilogue.py",
        "row_tile.group, row_tile.row(i))\n            factors",
        "row_tile.group, row_tile.row(i) + 400_000_000)\n            factors",
    ),
    Change("a kernel that never ends", "kernel/sm90/fmha.py", '"k") and warp == 0:', '"k") and warp == 99:'),
)


def with_limit(machine: Machine, name: str, again: bool = True) -> subprocess.Popen[bytes]:
    """Start a run of the gate whose phases are stopped after GATE_S seconds."""
    return machine.start("gate", *["--again"] * again, name=name.replace(" ", "-"))


def judge_gate(machine: Machine, name: str) -> int | None:
    """Judge the clone's working tree on the gate, and record how that ended. Return the exit code, None if killed."""
    began = time.monotonic()
    process = with_limit(machine, name)
    return machine.record(name, ended(process), time.monotonic() - began).code


def ended(process: subprocess.Popen[bytes]) -> int | None:
    """Wait for a process; kill it after RUN_S seconds."""
    try:
        return process.wait(RUN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return None


def changed(machine: Machine, change: Change) -> None:
    """Judge a wrong change, take it back, and judge the kernel again: the GPU must be usable."""
    file = machine.clone / change.path
    text = file.read_text()
    assert text.count(change.old) == 1, f"{change.path} has {text.count(change.old)} times {change.old!r}"
    file.write_text(text.replace(change.old, change.new))
    try:
        judge_gate(machine, change.name)
    finally:
        file.write_text(text)
    if change.name in ("an illegal address", "a kernel that never ends"):
        judge_gate(machine, f"the next run after {change.name}")


def interrupted(machine: Machine, name: str, number: signal.Signals, whom: str) -> None:
    """Send a signal to the client, or to the supervisor of its run, amid launches. Fetch the verdict by `resume`."""
    began = time.monotonic()
    process = with_limit(machine, name)
    while not processes("harness.judge.run", machine.work) and time.monotonic() < began + STARTED_S:
        time.sleep(0.1)
    time.sleep(LAUNCHING_S)
    if whom == "client":
        process.send_signal(number)
    else:
        for pid in processes("harness.host.supervisor", machine.work):
            os.kill(pid, number)
    machine.record(name, ended(process), time.monotonic() - began)
    newest = max(path.name for path in (machine.clone / "results").glob("2*"))
    began = time.monotonic()
    resumed = machine.start("resume", newest, name="resume", targeted=False)
    machine.record(f"resume after {name}", ended(resumed), time.monotonic() - began)


def processes(module: str, work: Path) -> list[int]:
    """Return the processes that run a module for a run in a work folder."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (folder / "cmdline").read_bytes().decode().split("\0")
            places = [*command, os.readlink(folder / "cwd")]
            if module in command and any(each.startswith(f"{work}/runs/") for each in places):
                found.append(int(folder.name))
    return found


def two_at_once(machine: Machine) -> None:
    """Start two runs. The second waits for the first."""
    began = time.monotonic()
    runs = [with_limit(machine, f"run {i} of two at once") for i in (1, 2)]
    codes = [ended(each) for each in runs]
    machine.record("two runs at once", next((code for code in codes if code != 0), 0), time.monotonic() - began)


def out_of_memory(machine: Machine) -> None:
    """Judge while another process has the GPU's memory."""
    program = (
        "import torch, time\n"
        "held = []\n"
        "for size in (1 << 30, 1 << 26, 1 << 22, 1 << 21):\n"
        "    try:\n"
        "        while True: held.append(torch.empty(size, dtype=torch.uint8, device='cuda'))\n"
        "    except torch.OutOfMemoryError: pass\n"
        "print('held', flush=True); time.sleep(300)\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        judge_gate(machine, "out of memory")
    finally:
        holder.kill()
        holder.wait()


def no_gpu(machine: Machine) -> None:
    """Judge on a GPU index that the machine does not have."""
    file = machine.clone / "remote" / "targets.toml"
    text = file.read_text()
    file.write_text(text + "gpu = 7\n")
    try:
        judge_gate(machine, "no such GPU")
    finally:
        file.write_text(text)


def main() -> int:
    """Run the command line that the module's docstring describes."""
    parser = argparse.ArgumentParser(prog="python -m lab.gpu_failures", description=__doc__)
    parser.add_argument("folder", type=Path, help="a new folder for the clone and the output of each step")
    parser.add_argument("--workdir", type=Path, required=True, help="work folder of the target, with an env in it")
    parser.add_argument("--arch", default="sm_90a", help="architecture to compile for (default: %(default)s)")
    parser.add_argument(
        "--device", default="cuda", choices=("cuda", "emulator"), help="where kernels run (default: cuda)"
    )
    args = parser.parse_args()
    folder = args.folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it, as do its children
    machine = Machine(folder, args.workdir.resolve(), args.arch, args.device)
    parts: list[Callable[[], None]] = [
        lambda: two_at_once(machine),
        lambda: interrupted(machine, "kill -9 of the client", signal.SIGKILL, "client"),
        lambda: interrupted(machine, "kill -9 of the supervisor", signal.SIGKILL, "supervisor"),
        lambda: interrupted(machine, "Ctrl-C", signal.SIGINT, "client"),
        lambda: out_of_memory(machine),
        lambda: no_gpu(machine),
        *((lambda change=change: changed(machine, change)) for change in CHANGES),
    ]
    try:
        machine.prepare()
        machine.limit_gate(GATE_S)
        machine.take("trust", deadline_s=30.0)
        if judge_gate(machine, "the kernel as it is") != 0:
            return 1
        for part in parts:
            try:
                part()
            except (AssertionError, OSError, ValueError) as error:
                machine.record(f"failed: {error}", None, 0.0)
    finally:
        machine.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
