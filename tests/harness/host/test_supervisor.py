"""The supervisor, detached and with real processes: every kind of failure leads to its verdict."""

import json
import os
import random
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.client import candidate
from harness.client.driver import DEFAULT_LIMITS
from harness.client.host import Host
from harness.client.plan import Planner, TimeLimits
from harness.host import lock, phase
from harness.host.job import Job, RunFolder, Step, Workplace
from harness.host.journal import read_beat, read_events
from harness.host.phase import Stop
from harness.host.protected import PROTECTION
from harness.host.repository import Repository
from harness.host.ruling import Ruling, decode
from harness.host.subject import Subject
from harness.host.verdict import EXIT_BAD_INPUT, Verdict
from remote.errors import Refused
from remote.local import Local

#: Time limits of kernels that hang may be short; others get limits that they meet on a busy machine.
HANGS = {"compile_hang": TimeLimits(compile_s=1.0), "hang": TimeLimits(gate_s=2.0)}
PATIENCE_S = 600.0


def about(job: Job, **facts: Any) -> Job:
    """Return the job with other facts about its subject."""
    return replace(job, subject=replace(job.subject, **facts))


class Place:
    """A workplace that has the candidates of a project."""

    def __init__(self, project, root: Path) -> None:
        self.project = project
        self.workplace = Workplace(root)
        self.count = 0
        self.started: list[RunFolder] = []
        target = Local("sim", str(root), python=sys.executable)
        self.host = Host(target, target.connect())

    def job(self, *milestones: str, limits: TimeLimits = DEFAULT_LIMITS, **changes) -> Job:
        """Return a job for the working tree on `milestones` (default: D1.1)."""
        self.count += 1
        wanted = milestones or ("D1.1",)
        run = f"20261121-0930{self.count:02d}-{'+'.join(wanted)}-{secrets.token_hex(3)}"
        repository = Repository(self.project.path)
        made = candidate.make(repository, run, "test")
        repository.git("push", "--quiet", str(self.workplace.repository), f"{made.commit}:{made.ref}")
        phases = Planner(wanted, run, sys.executable, limits).judging("sim", "emulator")
        pins = PROTECTION.digest(repository.tree(made.commit))
        job = Job(
            Subject(run=run, commit=made.commit, milestones=list(wanted), target="sim", user="ada", pins=pins),
            phases.fingerprint,
            phases.steps,
            disk_bytes=8 << 20,
            grace_s=1.0,
        )
        return replace(job, **changes)

    def start(self, job: Job) -> RunFolder:
        self.host.start(job)
        folder = self.workplace.run(job.run)
        self.started.append(folder)
        return folder

    def run(self, job: Job) -> Ruling:
        return self.ruling(job, self.start(job))

    def ruling(self, job: Job, folder: RunFolder) -> Ruling:
        wait_for(lambda: (folder.path / "verdict.json").exists())
        wait_for(lambda: not lock.is_held(folder.alive))
        return decode((folder.path / "verdict.json").read_bytes(), job.run, job.subject.commit)

    def supervisor(self, folder: RunFolder) -> int:
        return int(next(read_events(folder.journal))[0]["pid"])


def wait_for(seen, patience_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + patience_s
    while not seen():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def in_phase(folder: RunFolder, name: str):
    return lambda: any(e.get("name") == name for e, _ in read_events(folder.journal) if e["event"] == "phase")


def length_of_its_own() -> float:
    """Return a number of seconds that no other process sleeps, so that it identifies a process."""
    return 600 + random.random()


def processes(text: str) -> list[int]:
    """Return the ids of the living processes with `text` in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if text.encode() in (path / "cmdline").read_bytes() and "Z" not in (path / "stat").read_text().split()[2]:
                found.append(int(path.name))
        except OSError:
            continue
    return found


@pytest.fixture
def place(project, tmp_path):
    place = Place(project, tmp_path / "host")
    yield place
    for folder in place.started:
        if lock.is_held(folder.alive):
            os.kill(place.supervisor(folder), signal.SIGTERM)
            wait_for(lambda folder=folder: not lock.is_held(folder.alive))


def test_accept_leaves_results_a_verdict_and_nothing_else(place):
    place.project.kernel(cosine=1.0)
    before = place.project.state()
    job = place.job("D1.2")
    ruling = place.run(job)
    assert (ruling.verdict, ruling.subject) == (Verdict.ACCEPT, job.subject), ruling.reason
    assert {"gate/record.json", "record.json", "logs/gate.log", "logs/stage.log"} <= ruling.files.keys()
    assert ruling.before == ruling.after and ruling.before["python"]
    assert list(ruling.seconds) == [
        "fingerprint before", "record gate", "record gate again", "gate",
        "record stage", "record stage again", "stage", "fingerprint after",
    ]  # fmt: skip
    folder = place.workplace.run(job.run)
    assert not folder.tree.exists() and not folder.home.exists()
    assert not lock.is_held(place.workplace.locks / "gpu0.lock")
    assert len(Repository(place.workplace.repository).git("worktree", "list").splitlines()) == 1
    assert place.project.state() == before


def test_gate_is_first_and_its_fall_ends_the_run(place):
    place.project.kernel(cosine=1.0, cosine_D1_1=0.5)
    ruling = place.run(place.job("D1.2"))
    assert ruling.verdict is Verdict.REJECT_GATE and "cosine 0.5" in ruling.reason
    assert "stage" not in ruling.seconds


def test_stage_falls_with_the_gate_held(place):
    place.project.kernel(cosine=1.0, cosine_D1_3=0.5)
    ruling = place.run(place.job("D1.2", "D1.3", "D1.4"))
    assert (ruling.verdict, ruling.phase) == (Verdict.REJECT_STAGE, "stage D1.3")
    assert "D1.2/record.json" in ruling.files


@pytest.mark.parametrize(
    ("settings", "verdict", "words"),
    [
        ({"compile": "error"}, Verdict.COMPILE_ERROR, "gate"),
        ({"compile_hang": True}, Verdict.COMPILE_HANG, "a compile did not end in 1 s"),
        ({"hang": "sleep"}, Verdict.GPU_HANG, "gate did not end in 2 s"),
        pytest.param({"hang": "gil"}, Verdict.GPU_HANG, "gate did not end in 2 s", marks=pytest.mark.long),
        pytest.param({"hang": "deaf"}, Verdict.GPU_HANG, "gate did not end in 2 s", marks=pytest.mark.long),
        ({"exit": 0}, Verdict.TAMPERED, "record has verdict ''"),
        ({"exit": 1}, Verdict.REJECT_GATE, "gate"),
        pytest.param({"exit": 2}, Verdict.INFRA, "rejected its arguments", marks=pytest.mark.long),
        ({"die": int(signal.SIGSEGV)}, Verdict.REJECT_GATE, "SIGSEGV"),
        pytest.param({"die": int(signal.SIGKILL)}, Verdict.INFRA, "killed from outside", marks=pytest.mark.long),
        ({"ends": -int(signal.SIGKILL)}, Verdict.REJECT_GATE, "record gate died of SIGKILL"),
        *(
            pytest.param({"ends": code}, Verdict.REJECT_GATE, "record gate", marks=pytest.mark.long)
            for code in (EXIT_BAD_INPUT, Verdict.PIN.exit_code, Verdict.INFRA.exit_code)
        ),
        ({"exit": 1, "shout": "No space left on device"}, Verdict.REJECT_GATE, "No space left on device"),
        ({"exit": 1, "shout": "\x1b[31m[bold]\u202e<script>"}, Verdict.REJECT_GATE, "[31m[bold] <script>"),
    ],
)  # fmt: skip
def test_every_end_of_a_phase_has_its_verdict(place, settings, verdict, words):
    place.project.kernel(**({"cosine": 1.0} | settings))
    limits = next((HANGS[name] for name in settings if name in HANGS), DEFAULT_LIMITS)
    ruling = place.run(place.job(limits=limits))
    assert ruling.verdict is verdict, ruling.reason
    assert words in ruling.reason
    wait_for(lambda: not processes(ruling.subject.run), 5.0)


@pytest.mark.long
def test_a_compile_that_waits_for_a_core_does_not_hang(place):
    place.project.kernel(cosine=1.0, compile_waits=2.5)
    ruling = place.run(place.job(limits=TimeLimits(compile_s=1.0)))
    assert ruling.verdict is Verdict.ACCEPT, ruling.reason


@pytest.mark.long
def test_compiles_beside_each_other_do_not_hang(place):
    place.project.kernel(cosine=1.0, compiles_s=0.7)
    ruling = place.run(place.job(limits=TimeLimits(compile_s=1.0)))
    assert ruling.verdict is Verdict.ACCEPT, ruling.reason


@pytest.mark.parametrize(
    ("accepted", "verdict", "said"),
    [
        (9.0, Verdict.PIN, "judge accepted: the accepted kernel, hd=64 seeds=['0']: z = 9.0"),
        (1.0, Verdict.REJECT_GATE, ""),
    ],
    ids=["as the accepted kernel does", "as the accepted kernel does not"],
)
def test_a_bound_of_the_model_is_exceeded(place, accepted, verdict, said):
    """It is the change's fault only if the accepted kernel holds with the same inputs."""
    place.project.kernel(cosine=1.0, z=accepted)
    place.project.git("commit", "--all", "--quiet", "--message", "Accepted")
    base = place.project.git("rev-parse", "HEAD").strip()
    place.project.kernel(cosine=1.0, z=9.5)
    job = about(place.job(), base=base)
    ruling = place.run(job)
    assert ruling.verdict is verdict and said in ruling.reason, ruling.reason
    again = [event for event, _ in read_events(place.workplace.run(job.run).journal) if event["event"] == "again"]
    assert [(event["case"], event["seeds"], event["figures"]) for event in again] == [("hd=64", "0", "O.z")]


@pytest.mark.parametrize(
    "path",
    [
        "stages/tolerances.toml",
        *(pytest.param(each, marks=pytest.mark.long) for each in ("kernel/sneaky.py", "stages/x.log")),
    ],
)
def test_a_phase_changes_no_file_of_its_checkout(place, path):
    """Walls prevent it. A host that allows none notices it before the next phase."""
    place.project.kernel(cosine=1.0, vandal=path)
    ruling = place.run(place.job())
    if any(wall.startswith("no walls") for wall in ruling.walls):
        assert ruling.verdict is Verdict.TAMPERED and f"checkout: {path}" in ruling.reason
    else:
        assert ruling.verdict is Verdict.REJECT_GATE and "Read-only file system" in ruling.reason


def test_the_phase_that_judges_starts_beside_the_one_that_records_if_there_are_walls(place):
    place.project.kernel(cosine=1.0, meets=5.0)
    ruling = place.run(place.job())
    alone = any(wall.startswith("no walls") for wall in ruling.walls)
    assert ruling.verdict is (Verdict.COMPILE_ERROR if alone else Verdict.ACCEPT), ruling.reason


def test_daemons_of_a_phase_end_with_it(place):
    length = length_of_its_own()
    place.project.kernel(cosine=1.0, spawn=length)
    assert place.run(place.job()).verdict is Verdict.ACCEPT
    assert not processes(str(length))


@pytest.mark.long
def test_hang_then_sick_canary_marks_the_device_broken(place):
    place.project.kernel(cosine=1.0, hang="sleep")
    sick = Step("canary", ["sh", "-c", "echo sick; case $HOME in *hang) exit 1;; esac"], 5.0)
    job = place.job(limits=HANGS["hang"], canary=sick)
    assert place.run(job).verdict is Verdict.GPU_HANG
    assert "sick" in place.workplace.broken("gpu0").read_text()
    place.project.kernel(cosine=1.0)
    refused = place.run(place.job())
    assert refused.verdict is Verdict.INFRA and "marked broken" in refused.reason
    place.workplace.broken("gpu0").unlink()
    assert place.run(place.job()).verdict is Verdict.ACCEPT


def test_query_that_blocks_ends_at_its_budget(place):
    blocked = Step("fingerprint", ["sleep", "600"], 1.0)
    ruling = place.run(place.job(fingerprint=blocked))
    assert ruling.verdict is Verdict.INFRA and "did not end in 1 s" in ruling.reason


def test_host_that_changes_during_the_run(place):
    changing = Step("fingerprint", ["sh", "-c", 'echo "{\\"driver\\": \\"$(date +%s%N)\\"}"'], 5.0)
    ruling = place.run(place.job(fingerprint=changing))
    assert ruling.verdict is Verdict.TAMPERED and "driver" in ruling.reason


def test_environment_that_differs_from_the_lock(place):
    place.project.write("requirements.lock", "pytest==0.0.1\nno-such-package==1\nx==1 ; sys_platform == 'mars'\n")
    ruling = place.run(place.job())
    assert ruling.verdict is Verdict.INFRA
    assert "pytest is" in ruling.reason and "no-such-package is missing" in ruling.reason
    assert "make provision" in ruling.reason


def test_pins_that_are_not_the_jobs(place):
    ruling = place.run(about(place.job(), pins="0" * 64))
    assert ruling.verdict is Verdict.TAMPERED and "pinned paths" in ruling.reason


def test_commit_that_does_not_descend_from_accepted_is_stale(place):
    first = place.job()
    repository = Repository(place.workplace.repository)
    other = repository.git(
        "commit-tree", "-m", "other", f"{first.subject.commit}^{{tree}}",
        env={f"GIT_{w}_{k}": "x" for w in ("AUTHOR", "COMMITTER") for k in ("NAME", "EMAIL")},
    )  # fmt: skip
    repository.move("refs/heads/accepted", other, None, "test")
    assert place.run(first).verdict is Verdict.STALE


def test_two_users_one_runs_one_waits_in_line(place):
    place.project.kernel(cosine=1.0, sleep=1.5)
    first = place.job()
    second = about(place.job(), user="bob")
    one = place.start(first)
    wait_for(in_phase(one, "gate"))
    two = place.start(second)
    wait_for(lambda: any(e["event"] == "waiting" for e, _ in read_events(two.journal)))
    waiting = next(e for e, _ in read_events(two.journal) if e["event"] == "waiting")
    assert (waiting["owner"], waiting["run"]) == ("ada", first.run)
    assert lock.holder(place.workplace.locks, "gpu0")["run"] == first.run
    assert lock.waiting(place.workplace.locks, "gpu0") == [second.run]
    beat = read_beat(two.heartbeat)
    assert beat is not None and "ada" in beat[0]["last"]
    assert place.ruling(first, one).verdict is Verdict.ACCEPT
    assert place.ruling(second, two).verdict is Verdict.ACCEPT
    assert second.run not in str(lock.waiting(place.workplace.locks, "gpu0"))


def test_cancel_in_line_and_in_a_phase(place):
    place.project.kernel(cosine=1.0, hang="sleep")
    first, second = place.job(), place.job()
    one, two = place.start(first), place.start(second)
    wait_for(in_phase(one, "gate"))
    two.cancel.write_text("bob")
    assert place.ruling(second, two).reason == "cancelled by bob"
    one.cancel.write_text("eve\x1b[2J")
    ruling = place.ruling(first, one)
    assert (ruling.verdict, ruling.reason) == (Verdict.CANCELLED, "cancelled by eve [2J")


def test_killed_supervisor_frees_the_lock_and_its_phases_die(place):
    length = length_of_its_own()
    place.project.kernel(cosine=1.0, hang="deaf", spawn=length)
    job = place.job()
    folder = place.start(job)
    wait_for(lambda: processes(str(length)))
    os.kill(place.supervisor(folder), signal.SIGKILL)
    wait_for(lambda: not lock.is_held(folder.alive))
    assert not lock.is_held(place.workplace.locks / "gpu0.lock")
    assert not (folder.path / "verdict.json").exists()
    place.project.kernel(cosine=1.0)
    assert place.run(place.job()).verdict is Verdict.ACCEPT
    assert not processes(str(length)), "the next holder ends what the dead one left"


def test_supervisor_told_to_stop_says_so(place):
    place.project.kernel(cosine=1.0, hang="sleep")
    job = place.job()
    folder = place.start(job)
    wait_for(in_phase(folder, "gate"))
    os.kill(place.supervisor(folder), signal.SIGTERM)
    ruling = place.ruling(job, folder)
    assert ruling.verdict is Verdict.INFRA and "told to stop" in ruling.reason


def test_starting_twice_runs_once(place):
    job = place.job()
    folder = place.start(job)
    place.host.start(job)
    place.ruling(job, folder)
    assert sum(e["event"] == "start" for e, _ in read_events(folder.journal)) == 1
    with pytest.raises(Refused, match="a different job"):
        place.host.start(about(job, user="eve"))


def test_too_little_room_is_found_before_the_run(place):
    ruling = place.run(place.job(disk_bytes=1 << 60))
    assert ruling.verdict is Verdict.INFRA and "MiB free" in ruling.reason and "needed" in ruling.reason
    assert not ruling.seconds


@pytest.fixture
def small_disk(tmp_path):
    if os.getuid() != 0:
        pytest.skip("mounting a small tmpfs needs root")
    root = tmp_path / "small"
    root.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m,nr_inodes=20k", "tmpfs", root], check=True)
    yield root
    subprocess.run(["umount", "--lazy", root], check=True)


@pytest.mark.parametrize("fill", ["large files", "many files", "a closed folder"])
def test_candidate_that_fills_the_disk_is_rejected(project, small_disk, fill):
    place = Place(project, small_disk)
    project.kernel(cosine=1.0, fill=fill)
    job = place.job()
    ruling = place.run(job)
    assert ruling.verdict is Verdict.REJECT_GATE and re.search("filled the disk: .* allowed are 8", ruling.reason)
    assert shutil.disk_usage(small_disk).free > job.disk_bytes, "its files are still there"
    written = json.loads((place.workplace.run(job.run).path / "verdict.json").read_text())
    assert (written["subject"]["run"], written["verdict"]) == (job.run, "REJECT_GATE")


def test_disk_that_another_process_fills_mid_run_is_the_machines_fault(project, small_disk):
    place = Place(project, small_disk)
    project.kernel(cosine=1.0, fill="later")
    job = place.job()
    folder = place.start(job)
    wait_for(lambda: list(folder.out.rglob("filler")))
    free = shutil.disk_usage(small_disk).free
    (small_disk / "of somebody else").write_bytes(b"x" * (free - (2 << 20)))
    ruling = place.ruling(job, folder)
    assert ruling.verdict is Verdict.INFRA and "the disk is full" in ruling.reason


def test_a_phase_that_is_idle_or_uses_too_much_is_stopped(tmp_path, monkeypatch):
    started = phase.start(["sh", "-c", "sleep 600 & wait"], tmp_path, {}, tmp_path / "log")
    watch = phase.UsageWatch(started)

    def at_rest() -> bool:
        """Return whether both processes have started: those that start use CPU time after the first look."""
        before = phase._used(started)
        time.sleep(0.2)
        return len(before) == 2 and phase._used(started) == before

    wait_for(at_rest)
    try:
        assert watch.look(1.0) is None and watch.look(60.0) is None
        assert watch.look(62.0) is Stop.IDLE
        with monkeypatch.context() as patch:
            patch.setattr(phase, "MOST_PROCESSES", 1)
            assert watch.look(64.0) is Stop.PROCESSES
        monkeypatch.setattr(phase, "MOST_BYTES", 1)
        assert watch.look(66.0) is Stop.MEMORY
    finally:
        phase.end(started)


def test_memory_in_files_without_a_disk_counts(tmp_path, monkeypatch):
    """It is in no process's resident size."""
    held = 64 << 20
    code = f"import os, time; os.posix_fallocate(os.memfd_create('x'), 0, {held}); time.sleep(600)"
    before = phase._shared_bytes()
    started = phase.start([sys.executable, "-c", code], tmp_path, {}, tmp_path / "log")
    watch = phase.UsageWatch(started)
    try:
        wait_for(lambda: phase._shared_bytes() > before + held // 2)
        resident = sum(used[1] for used in phase._used(started).values())
        monkeypatch.setattr(phase, "MOST_BYTES", resident + held // 2)
        assert watch.look(1.0) is Stop.MEMORY
    finally:
        phase.end(started)


ENDED_FOR_MEMORY = """
import os, sys
from pathlib import Path
from harness.host import phase
phase.MOST_BYTES, phase._kills_for_memory = 200 << 20, iter((0, 1)).__next__
code = "import os; held = b'1' * (SIZE << 20); os.kill(os.getpid(), 9)".replace("SIZE", sys.argv[2])
started = phase.start([sys.executable, "-c", code], Path(), os.environ, Path(sys.argv[1]))
print(phase.follow(started, 0.1, lambda seconds: None).starved)
"""


@pytest.mark.parametrize(("size", "starved"), [(150, False), (1, True)])
def test_what_ends_for_its_own_memory_is_not_the_machines_fault(size, starved, tmp_path):
    """It may take the memory between two looks, and Linux then ends it."""
    command = [sys.executable, "-c", ENDED_FOR_MEMORY, str(tmp_path / "log"), str(size)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == f"{starved}\n", done.stderr


def test_a_process_that_stops_itself_is_ended(tmp_path, monkeypatch):
    """A stopped process does not heed SIGTERM."""
    monkeypatch.setattr(phase, "IDLE_S", 2.0)
    started = phase.start(["sh", "-c", "kill -STOP $$"], tmp_path, {}, tmp_path / "log")
    ended = phase.follow(started, 0.1, phase.UsageWatch(started).look)
    assert (ended.stop, ended.code, ended.stuck) == (Stop.IDLE, -signal.SIGKILL, False)


def test_descendants_are_found_across_sessions():
    child = subprocess.Popen(["sh", "-c", "setsid sleep 30 & sleep 30"], start_new_session=True)
    try:
        wait_for(lambda: len(phase.descendants(child.pid)) == 2)
        assert phase.descendants(child.pid) < phase.descendants(os.getpid())
    finally:
        for pid in (*phase.descendants(child.pid), child.pid):
            os.kill(pid, signal.SIGKILL)
        child.wait()


def test_path_that_the_assembler_cannot_read_is_refused(project, tmp_path):
    with pytest.raises(Refused, match="a double quote, which ptxas cannot read in a path: choose another"):
        Place(project, tmp_path / 'so-called "work"')
