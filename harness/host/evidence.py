"""The verdict on a phase that ended: from its exit code, log, record and disk, none of which is trusted."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.host.files import FULL, digest, is_plain, open_plain, remove
from harness.host.job import Job, RunFolder, Step
from harness.host.journal import last_line, one_line
from harness.host.phase import Ended, Stop
from harness.host.record_requirements import Beyond, Requirements, objects
from harness.host.ruling import RULING_NAME, ResultFile
from harness.host.verdict import EXIT_BAD_INPUT, Verdict

RECORD_NAME = "record.json"
#: Files that the client writes into the folder of fetched results.
OF_CLIENTS = frozenset(("run.json", RULING_NAME))
MAX_RECORD_BYTES = 8 << 20
MAX_FILES = 2000
MAX_DEPTH = 4
#: The kinds of files that a run leaves. A browser runs none of them.
KINDS = frozenset((".json", ".ptx", ".cubin", ".png", ".txt", ".log"))
MAX_NEWS = 1000
MAX_RESULT_BYTES = 256 << 20
EXACT = {
    each.exit_code: each
    for each in (Verdict.COMPILE_ERROR, Verdict.COMPILE_HANG, Verdict.GPU_HANG, Verdict.PIN, Verdict.INFRA)
}
#: Figures that the error model bounds (stages/error_model.py).
OF_MODEL = frozenset(("z", "z_square", "z_factor", "z_row", "z_key", "limit"))


class Ruled(Exception):
    """Raised when the verdict of the run is known."""

    def __init__(self, verdict: Verdict, reason: str) -> None:
        super().__init__(reason)
        self.verdict = verdict
        self.reason = reason


class Interrupted(Ruled):
    """Raised when the supervisor was told to stop; a scheduler may start the run again."""


def verdict_of(
    folder: RunFolder,
    job: Job,
    step: Step,
    ended: Ended,
    requirements: Requirements | None = None,
    fresh: int | None = None,
) -> Ruled | None:
    """Return the verdict that the end of `step` implies, or None if the run continues.

    requirements: what the record of a step that judges, with the seed `fresh`, must show.
    """
    if ended.stop is Stop.TIME_LIMIT:
        return Ruled(Verdict[step.hung], f"{step.name} did not end in {step.budget_s:g} s")
    if ended.stop is Stop.COMPILE_LIMIT:
        return Ruled(Verdict.COMPILE_HANG, f"{step.name}: a compile did not end in {step.compile_s:g} s of CPU time")
    if ended.stop is Stop.IDLE:
        return Ruled(Verdict[step.hung], f"{step.name} {ended.stop.value}")
    if ended.stop in (Stop.PROCESSES, Stop.MEMORY):
        return Ruled(Verdict[step.failed], f"{step.name} {ended.stop.value}")
    if ended.stop:
        return stopped(folder, ended.stop)
    if ended.code == 0:
        return _believe(folder, job, step, requirements, fresh) if step.milestone else None
    said = _said(folder, step)
    if _is_full(folder.path):
        return full_disk(folder, job, step)
    if ended.code == -signal.SIGKILL and (ended.starved or not step.records):
        return Ruled(Verdict.INFRA, f"{step.name} was killed from outside (out of memory?)")
    if ended.code < 0:
        return Ruled(Verdict[step.failed], f"{step.name} died of {signal.Signals(-ended.code).name}: {said}")
    if ended.code == EXIT_BAD_INPUT and not step.records:
        return Ruled(Verdict.INFRA, f"{step.name} rejected its arguments: {said}")
    verdict = EXACT.get(ended.code, Verdict[step.failed])
    if step.records and not verdict.rejects:
        verdict = Verdict[step.failed]
    return Ruled(verdict, f"{step.name}: {said}")


def beyond_model(record: dict[str, Any], requirements: Requirements) -> Beyond | None:
    """Return the first failure if it is beyond bounds of the error model alone, by a seed or by all of them added up.

    None if the first case that failed did so otherwise: a launch had an error, or another figure is outside its pin.
    """
    failed = (each for each in objects(record, "cases") if each.get("outcome") == "failed")
    case = next(failed, None)
    if case is None:
        return next(requirements.beyond_added_up(record), None)
    outside = [each for each in objects(case, "figures") if each.get("holds") is not True]
    name, seed = case.get("name"), case.get("seed")
    if name not in (*requirements.cases, *requirements.beside) or not isinstance(seed, int) or not outside:
        return None
    if any(each.get("error") for each in objects(case, "launches")):
        return None
    if any(each.get("metric") not in OF_MODEL for each in outside):
        return None
    said = ", ".join(f"{each.get('tensor')}.{each.get('metric')}" for each in outside)
    return Beyond(str(name), (seed,), said)


def stopped(folder: RunFolder, stop: Stop | None) -> Ruled | None:
    """Return the verdict of a run that was asked to stop, or None if it was not."""
    if stop is Stop.CANCEL:
        with suppress(OSError):
            return Ruled(Verdict.CANCELLED, f"cancelled by {one_line(folder.cancel.read_text(), 64)}")
        return Ruled(Verdict.CANCELLED, "cancelled")
    return Interrupted(Verdict.INFRA, Stop.SHUTDOWN.value) if stop else None


def read_record(folder: Path) -> dict[str, Any]:
    """Return the record that a phase left in `folder`, or {} if there is no readable one."""
    with suppress(OSError, ValueError, RecursionError):
        with open_plain(folder / RECORD_NAME) as stream:
            data = stream.read(MAX_RECORD_BYTES + 1)
        if len(data) <= MAX_RECORD_BYTES:
            record = json.loads(data)
            return record if isinstance(record, dict) else {}
    return {}


def compiled(out: Path, steps: Sequence[Step]) -> set[str]:
    """Return the keys in the cache of the kernels that the records of a run name."""
    records = [read_record(out / step.record) for step in steps if step.milestone]
    return {str(each.get("key")) for record in records for each in objects(record, "compiles")}


def fingerprint(log: Path) -> dict[str, str]:
    """Return the JSON object that the fingerprint phase printed last. Raises Ruled if there is none."""
    try:
        lines = log.read_bytes()[:MAX_RECORD_BYTES].splitlines()
        return {str(k): one_line(str(v)) for k, v in json.loads(lines[-1]).items()}
    except (OSError, ValueError, IndexError, AttributeError) as error:
        raise Ruled(Verdict.INFRA, f"the fingerprint cannot be read: {error}") from error


def planted(out: Path, steps: Sequence[Step]) -> list[Path]:
    """Return the files among the results that would pass for a record of no phase, or for a file of the client's."""
    records = {out / step.record / RECORD_NAME for step in steps if step.record}
    named = (path for path in _files(out) if path.name in (RECORD_NAME, *OF_CLIENTS))
    return [path for path in named if path not in records]


def manifest(out: Path, steps: Sequence[Step]) -> dict[str, ResultFile]:
    """Return size and SHA-256 of the plain files among the results, up to MAX_FILES and MAX_RESULT_BYTES in total.

    Records come first. Planted files stay on the host, and files of other kinds than a run leaves (KINDS): a browser
    would run what is in some of them. So do files whose name is not plain: a client would reject the verdict with them.
    """
    found: dict[str, ResultFile] = {}
    budget = MAX_RESULT_BYTES
    without = frozenset(planted(out, steps))
    for path in sorted(_files(out), key=lambda path: path.name != RECORD_NAME):
        if path.suffix not in KINDS or path in without or not is_plain(path.relative_to(out).as_posix()):
            continue
        size = path.lstat().st_size
        if path.is_symlink() or not path.is_file() or size > budget or len(found) >= MAX_FILES:
            continue
        budget -= size
        found[path.relative_to(out).as_posix()] = ResultFile(size, digest(path))
    return found


def _files(out: Path) -> Iterator[Path]:
    """Yield the paths of all files that are not deeper than results lie: a candidate may have made deeper folders."""
    for folder, folders, names in os.walk(out):
        if len(Path(folder).relative_to(out).parts) >= MAX_DEPTH:
            folders.clear()
        yield from (Path(folder, name) for name in sorted(names))


class RecordWatch:
    """Watches a record that a phase is writing, at most once a second.

    It reports new results, and sets `overdue` if one configuration compiles for more than `compile_s` seconds of CPU
    time (0: no limit). Other work of the machine does not make a compile overdue, nor do other processes
    that compile at the same time: none compiles more than one configuration for so long.
    """

    def __init__(self, folder: Path | None, compile_s: float, cpu_s: Callable[[], Mapping[int, float]]) -> None:
        """Watch the record in `folder`. cpu_s: returns the CPU time of each process of the phase that writes it."""
        self._folder = folder
        self._compile_s = compile_s
        self._cpu_s = cpu_s
        self._looked = 0.0
        #: Compiles are news of the phase that compiles.
        self._reported = len(objects(read_record(folder), "compiles")) if folder and not compile_s else 0
        self._compiling: tuple[tuple[int, int], Mapping[int, float]] | None = None
        self.overdue = False

    def look(self) -> list[str]:
        """Return a line for each compile and case that ended since the last call; do nothing within a second of it."""
        if self._folder is None or time.monotonic() - self._looked < 1.0:
            return []
        self._looked = time.monotonic()
        return self.look_again()

    def look_again(self) -> list[str]:
        """Do the same as `look`, even if the last call was less than a second ago."""
        record = read_record(self._folder) if self._folder else {}
        self.overdue = self._compiles_too_long(record)
        ended = _ended(record)
        new, self._reported = ended[self._reported : MAX_NEWS], max(self._reported, len(ended))
        return new

    def _compiles_too_long(self, record: dict[str, Any]) -> bool:
        running = [i for i, each in enumerate(objects(record, "phases")) if each.get("outcome") == "running"]
        if not running or not str(objects(record, "phases")[running[0]].get("name")).startswith("compile"):
            self._compiling = None
            return False
        at, now = (running[0], len(objects(record, "compiles"))), self._cpu_s()
        if self._compiling is None or self._compiling[0] != at:
            self._compiling = at, now
        before = self._compiling[1]
        busiest = max((seconds - before.get(process, 0.0) for process, seconds in now.items()), default=0.0)
        return bool(self._compile_s) and busiest > self._compile_s


def _ended(record: dict[str, Any]) -> list[str]:
    """Return a line for each compile and case of a record that has ended."""
    lines = [
        f"found {each.get('name')} compiled"
        if each.get("found") is True
        else f"compiled {each.get('name')} in {each.get('seconds')} s"
        for each in objects(record, "compiles")
    ]
    for each in objects(record, "cases"):
        if each.get("outcome") != "running":
            seed = f" seed={each['seed']}" if each.get("seed") is not None else ""
            seed += " (fresh)" if each.get("fresh") is True else ""
            lines.append(f"{each.get('name')}{seed} {each.get('outcome')} in {each.get('seconds')} s")
    return [one_line(re.sub(r"(\d\.\d)\d+ s$", r"\1 s", line), 160) for line in lines]


def _believe(
    folder: RunFolder, job: Job, step: Step, requirements: Requirements | None, fresh: int | None
) -> Ruled | None:
    """Return TAMPERED unless the record of a phase that exited with 0 shows that this commit holds this milestone."""
    record = read_record(folder.out / step.record)
    tree = record.get("tree")
    found = {
        "milestone": record.get("milestone"),
        "commit": tree.get("commit") if isinstance(tree, dict) else None,
        "verdict": record.get("verdict"),
    }
    wanted = {"milestone": step.milestone, "commit": job.subject.commit, "verdict": Verdict.ACCEPT.name}
    for name, value in wanted.items():
        if found[name] != value:
            text = f"{step.name} exited with 0, but its record has {name} {str(found[name])[:64]!r}, not {value!r}"
            return Ruled(Verdict.TAMPERED, text)
    if requirements is None or fresh is None:
        return Ruled(Verdict.TAMPERED, f"{step.name}: nothing says what its record must show")
    objections = list(requirements.objections(record, fresh, step.modes))
    if objections:
        more = f" (and {len(objections) - 1} more)" if len(objections) > 1 else ""
        return Ruled(Verdict.TAMPERED, f"{step.name} exited with 0, but in its record {objections[0]}{more}")
    return None


def _said(folder: RunFolder, step: Step) -> str:
    """Return why a phase failed, in its own words: the reason in its record, or the last line of its log."""
    reason = read_record(folder.out / step.record).get("reason") if step.record else ""
    return one_line(str(reason)) if reason else last_line(folder.log_of(step)) or "it printed nothing"


def full_disk(folder: RunFolder, job: Job, step: Step) -> Ruled:
    """Return the verdict on a full disk: the candidate's fault if the run has more than was free for it to begin.

    Its files are then removed. Each counts as 4 KiB more than it has, because a disk may run out of files.
    """
    places = [folder.path, folder.workplace.compiled / job.subject.commit]
    subprocess.run(["chmod", "-R", "u+rwX", *places], capture_output=True, check=False)
    found = subprocess.run(["find", *places, "-printf", "%k\n"], capture_output=True, check=False).stdout.split()
    used = sum(map(int, found), 4 * len(found)) << 10
    if used <= job.disk_bytes:
        return Ruled(Verdict.INFRA, f"{step.name}: the disk is full")
    for left in (folder.out.parent, folder.home, places[1]):
        remove(left)
    verdict, most = Verdict[step.failed], job.disk_bytes
    said = f"filled the disk: this run's {len(found)} files take {used >> 20} MiB, allowed are {most >> 20}"
    return Ruled(verdict if verdict.rejects else Verdict.REJECT_STAGE, f"{step.name} {said}")


def _is_full(folder: Path) -> bool:
    """Return True if the disk is full. That a phase says so is not enough: a candidate may print it.

    The folder is none that a phase may write to: there a link in place of the file would lead out of the walls.
    """
    try:
        with tempfile.TemporaryFile(dir=folder) as stream:
            stream.write(b"\0" * (1 << 20))
            stream.flush()
            os.fsync(stream.fileno())
        return False
    except OSError as error:
        return error.errno in FULL
