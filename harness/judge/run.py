"""The phase that judges one milestone in this checkout. It may be killed at any time, and its record remains.

`python -m harness.judge.run D1.1 --device emulator --target sim --out FOLDER` compiles every configuration of the
milestone (phase "compile" of FOLDER/record.json), runs its module (phase "stage"), predicts the time of its first case
(phase "clock", on the emulated device only), writes the verdict into the record and exits with the verdict's code.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import sys
import traceback
from pathlib import Path

from harness.host.job import RUN_ID
from harness.host.verdict import Verdict
from harness.judge import arguments
from harness.judge.kept import KeptKernels, kept_kernels, use
from harness.judge.predict import predict
from harness.judge.provenance import toolchain, working_tree
from harness.judge.recorder import Recorder
from harness.paths import ROOT
from harness.report import pytest_page, record
from remote.device import DEVICES, Emulated
from stages.catalog import GATE, Milestone
from stages.device import Device

PLUGINS = ("-p", "pytest_metadata.plugin", "-p", "pytest_html.plugin", "-p", "no:cacheprovider")
#: Terminal colours in CuTeDSL's error messages.
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
QUIET = ("-W", "ignore:Module already imported so cannot be rewritten:pytest.PytestAssertRewriteWarning")
# Paths are passed to pytest relative to here: it expands a $ in a path, and the path of a checkout may have one.
OPTIONS = (
    "-v",
    "--no-header",
    "--tb=short",
    "-o",
    "addopts=",
    "-o",
    "empty_parameter_set_mark=fail_at_collect",
    f"--rootdir={os.path.relpath(ROOT)}",
)
REPORT = (
    "--self-contained-html",
    f"--css={os.path.relpath(pytest_page.CSS)}",
    *("-o", "generate_report_on_test=true"),
    *("-o", "render_collapsed=skipped"),
)


def main() -> int:
    """Run the command line that the module's docstring describes."""
    parser = argparse.ArgumentParser(prog="python -m harness.judge.run", description=__doc__)
    parser.add_argument("milestone", type=arguments.milestone)
    parser.add_argument("--device", choices=sorted(DEVICES), required=True)
    parser.add_argument("--target", required=True, help="name of the target in the record")
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="folder of results; its name, or its parent's, is the run id",
    )
    args = parser.parse_args()
    milestone: Milestone = args.milestone
    device = DEVICES[args.device]()
    kept = kept_kernels(device)
    args.out.mkdir(parents=True, exist_ok=True)
    about = (run_of(args.out), milestone.id, args.target, record.now(), working_tree(), toolchain())
    recorder = Recorder(args.out, record.Record(*about), secrets.randbelow(10**9))
    verdict, reason = run(milestone, device, recorder, kept)
    recorder.judge(verdict, reason)
    pytest_page.stamp(args.out, recorder.record)
    return verdict.exit_code


def run_of(out: Path) -> str:
    """Return the run of the results in `out`: the name of the folder or of its parent, whichever is a run id."""
    return next((folder.name for folder in (out, out.parent) if RUN_ID.fullmatch(folder.name)), out.name)


def run(
    milestone: Milestone, device: Device, recorder: Recorder, kept: KeptKernels | None = None
) -> tuple[Verdict, str]:
    """Compile, then run the milestone's module. Return the verdict and its reason."""
    try:
        with recorder.phase("compile"):
            compile_cases(milestone, recorder, kept)
    except Exception as error:
        traceback.print_exc()
        return Verdict.COMPILE_ERROR, f"{type(error).__name__}: {COLOURS.sub('', str(error))}"
    with recorder.phase("stage") as phase:
        code = run_cases(milestone, device, recorder)
        phase.outcome = "failed" if code else "passed"
    verdict, reason = judge(milestone, recorder.record, code)
    if verdict is Verdict.ACCEPT and isinstance(device, Emulated):
        try:
            with recorder.phase("clock"):
                recorder.predicted(*predict(milestone.load().CASES[0], device))
        except Exception as error:
            traceback.print_exc()
            return Verdict.INFRA, f"the clock: {type(error).__name__}: {error}"
        return hold(milestone, recorder.record)
    return verdict, reason


def compile_cases(milestone: Milestone, recorder: Recorder, kept: KeptKernels | None = None) -> None:
    """Compile every configuration of the milestone, or take it from the cache; record its PTX and traced layouts."""
    import kernel
    from kernel.cubin import resources

    if kept is not None:
        use(kept)
    for config, case in {each.config: each for each in reversed(milestone.load().CASES)}.items():
        print(f"compiling {case}", flush=True)
        compiled = kernel.compile(config)
        stem = re.sub(r"[^a-z0-9]+", "-", case.name)
        key, found = ("", False) if kept is None else (kept.key(config), config in kept.found)
        registers, files = resources(compiled.cubin).registers, [f"{stem}.ptx", f"{stem}.layouts.txt"]
        what = record.Compile(case.name, compiled.compile_s, files, registers, key, found)
        recorder.compiled(what, [compiled.ptx, "\n".join(compiled.layouts) + "\n"])


def run_cases(milestone: Milestone, device: Device, recorder: Recorder) -> int:
    """Run `stages.every` and the milestone's module in pytest, without the user's options. Return its exit code."""
    import pytest

    from harness.judge.plugin import MilestonePlugin
    from stages import every

    os.environ.pop("PYTEST_ADDOPTS", None)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    report = f"--html={os.path.relpath(recorder.folder / record.REPORT_NAME)}"
    options = [*PLUGINS, *QUIET, *OPTIONS, *REPORT, report, every.__file__, str(milestone.module)]
    return int(pytest.main(options, [MilestonePlugin(milestone, recorder, device)]))


def judge(milestone: Milestone, done: record.Record, code: int) -> tuple[Verdict, str]:
    """Return the verdict on a module after pytest exited with `code`. ACCEPT requires both the code and the record."""
    failed = [case.label for case in done.cases if case.outcome != "passed"]
    admitted = [each.name for each in done.negative_controls if not each.refused]
    figures = [figure for case in done.cases for figure in case.figures]
    if code == 0 and figures and done.negative_controls and not failed and not admitted:
        return Verdict.ACCEPT, ""
    if failed:
        return rejected(milestone), f"failed: {', '.join(failed)}"
    return Verdict.INFRA, f"pytest exited with {code}, but no case in the record failed"


def hold(milestone: Milestone, done: record.Record) -> tuple[Verdict, str]:
    """Return the verdict on the predicted time of an accepted module, which must not exceed its pin."""
    predicted = done.prediction
    assert predicted is not None
    if predicted.holds:
        return Verdict.ACCEPT, ""
    fix = f'if that is intended: make pin-cycles {milestone.id}, then UNPIN=stages BECAUSE="..."'
    return rejected(milestone), f"slower: {milestone.id} {predicted}; {fix}"


def rejected(milestone: Milestone) -> Verdict:
    """Return the verdict on a milestone that does not hold."""
    return Verdict.REJECT_GATE if milestone is GATE else Verdict.REJECT_STAGE


if __name__ == "__main__":
    sys.exit(main())
