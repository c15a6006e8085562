"""Judge the recordings of a run once more, and compare every figure with its record, bit by bit: `make replay RUN=id`.

Nothing is compiled: the recordings are all that is taken of the kernel. The code that judges is this tree's; the
verdict of the run names the commit whose code judged it.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from harness.client.run_store import RunStore
from harness.host.job import JobError
from harness.host.phase import kept_environment
from harness.paths import RESULTS, ROOT
from harness.report import record
from harness.report.record import Record, RecordError
from stages.catalog import CATALOG

Figures = dict[str, float | None]


def main() -> int:
    """Print the comparison. Return 0 if every figure has the same bits, 1 if one differs, 2 if a run has no record."""
    parser = argparse.ArgumentParser(prog="python -m harness.tools.replay", description=__doc__)
    parser.add_argument("run", help="a run id; `make runs` lists them")
    try:
        folder = RunStore(RESULTS).folder(parser.parse_args().run)
        before = record.load(folder)
        after = replayed(folder, before)
    except (JobError, RecordError) as error:
        print(error, file=sys.stderr)
        return 2
    found = list(differences(figures(before), figures(after)))
    print(*found, f"{len(figures(before))} figures of {before.milestone}, {len(found)} differ", sep="\n")
    return int(bool(found))


def replayed(folder: Path, before: Record) -> Record:
    """Return the record of judging a copy of the recordings in `folder` with the same seeds.

    Raises RecordError if the run has no fresh seed, or if judging leaves no record.
    """
    fresh = next((case.seed for case in before.cases if case.fresh and case.seed is not None), None)
    if fresh is None or not (folder / record.RECORDINGS).is_dir():
        raise RecordError(f"{folder}: no recordings that were judged with a fresh seed")
    with tempfile.TemporaryDirectory(prefix="fmha-replay-") as name:
        out = Path(name, before.run)
        shutil.copytree(folder / record.RECORDINGS, out / record.RECORDINGS)
        shutil.copy2(folder / record.RECORD_NAME, out)
        argv = ["--device", "emulator", "--target", before.target, "--out", str(out)]
        argv += ["--seed", str(fresh), "--commit", before.tree.commit]
        others = {each.id for each in CATALOG}
        argv += ["--beside", *(case.name for case in before.cases if case.name.split()[0] in others)]
        chip = before.prediction.chip.lower() if before.prediction else ""
        env = kept_environment() | ({"EMULATOR_DEVICE": chip} if chip else {})
        command = [sys.executable, "-m", "harness.judge.run", before.milestone, *argv]
        subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, check=False)
        return record.load(out)


def figures(judged: Record) -> Figures:
    """Return every figure of a record by the name of its case, seed, tensor and metric, and the predicted cycles."""
    found: Figures = {
        f"{case.name} seed={case.seed} {each.tensor}.{each.metric}": each.value
        for case in judged.cases
        for each in case.figures
    }
    if judged.prediction:
        found[f"{judged.prediction.case} cycles"] = judged.prediction.cycles
    return found


def differences(before: Figures, after: Figures) -> Iterator[str]:
    """Yield a line for each figure that differs, or that only one side has."""
    for name in dict.fromkeys((*before, *after)):
        if name not in before or name not in after or before[name] != after[name]:
            yield f"{name}: recorded {before.get(name, 'no figure')}, replayed {after.get(name, 'no figure')}"


if __name__ == "__main__":
    sys.exit(main())
