"""The next step after a run that was not accepted: one command to type, or one page to read."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable
from pathlib import Path

from harness.host.verdict import Verdict
from harness.paths import ROOT
from harness.report.record import Case, Record
from stages.catalog import CATALOG

#: The variables of harness/tools/launch_cases.py that hold tensors; lse first, because O and U depend on it.
OUTPUTS = {"lse": "lse", "O": "o", "U": "u", "m": "m"}
SCRIPT = "harness/tools/launch_cases.py"
HANGS = ("Deadlock", "BudgetExceeded")
PAGES = {
    Verdict.GPU_HANG: "docs/howto/find-a-hang.md",
    Verdict.TAMPERED: "docs/reference/verdicts.md#what-a-change-may-touch",
    Verdict.PIN: "docs/explanation/error-model.md#when-a-bound-is-exceeded",
    Verdict.STALE: "run it again",
    Verdict.CANCELLED: "run it again",
}


def next_step(verdict: Verdict, reason: str, records: Iterable[Record], folder: Path, arch: str = "sm_100a") -> str:
    """Return the next step in one line; "" after an ACCEPT. folder: of the results. arch: of the kernel."""
    match verdict:
        case Verdict.ACCEPT | Verdict.UNKNOWN:
            return ""
        case Verdict.INFRA:
            return "make doctor, with the TARGET of this run"
        case Verdict.COMPILE_ERROR | Verdict.COMPILE_HANG:
            log = folder / "logs" / f"{reason.partition(':')[0].replace(' ', '-')}.log"
            hang = "the loops that the change unrolls, and " if verdict is Verdict.COMPILE_HANG else ""
            return f"look at {hang}{_short(log) if log.exists() else 'the line above'}"
    if verdict in PAGES:
        return PAGES[verdict]
    failed = ((each.milestone, case) for each in records for case in each.cases if case.outcome == "failed")
    milestone, case = next(failed, ("", None))
    if case is None:
        return "docs/howto/find-a-slow-barrier.md" if "slower: " in reason else "docs/reference/verdicts.md"
    return _of_case(milestone, case, "" if arch == "sm_100a" else f"CUTE_DSL_ARCH={arch} ")


def _of_case(milestone: str, case: Case, environment: str) -> str:
    """Return the next step after a failed case: what the finding means, or the command that traces the wrong value."""
    installed = Path(sys.executable).with_name("ptx-emulator")
    command = environment + (_short(installed) if installed.exists() else f"{_short(Path(sys.executable))} -m emulator")
    other, _, rest = case.name.partition(" ")
    milestone, name = (other, rest) if other in (each.id for each in CATALOG) else (milestone, case.name)
    launched = f"{SCRIPT} {milestone} --case {shlex.quote(name)} --seed {case.seed}"
    stopped = next((each for each in case.launches if each.error), None)
    if stopped and stopped.mode == "cuda":
        return f"make stage {milestone}: the emulator names races, missing waits and hangs"
    if stopped:
        finding, ptx = case.message.partition(":")[0], re.search(r"PTX line (\d+)", case.message)
        page = "docs/howto/find-a-hang.md" if finding in HANGS else f"docs/reference/findings.md#{finding.lower()}"
        order = f"--completion {stopped.mode} --seed {case.seed}"
        at = f", then `break ptx:{ptx[1]}` and `continue`" if ptx else ""
        return f"{page}; to stop there: {command} debug {order} {launched}{at}"
    wrong = {figure.tensor for figure in case.figures if not figure.holds}
    output = next((OUTPUTS[name] for name in OUTPUTS if name in wrong), "")
    if not output or case.seed is None:
        return "docs/howto/find-a-wrong-value.md"
    return f"{command} blame --output {output} --expected results/expected-{output}.npy --rtol 0.01 {launched}"


def _short(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)
