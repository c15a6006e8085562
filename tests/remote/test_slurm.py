"""Whole runs as jobs of a real Slurm (slurmctld, two slurmd, munge), also when anything on the way breaks."""

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from harness.host.journal import read_events
from harness.host.repository import ACCEPTED, Repository
from remote.faulty import Faulty
from remote.slurm import SUBMITTER, Slurm
from tests.remote.person import Person
from tests.tiers import shortened

pytestmark = [pytest.mark.slurm, pytest.mark.long]


class Desk(Person):
    """One user's clone, and a driver for the cluster."""

    interrupt_at: str | None = None

    def say(self, text):
        super().say(text)
        if self.interrupt_at and text.startswith(self.interrupt_at):
            raise KeyboardInterrupt

    def newest(self):
        return next(self.driver.store.newest_first())

    def run_folder(self):
        return self.place.run(self.newest().run)

    def job(self):
        return (self.run_folder().path / "slurm").read_text().strip()

    def supervisor(self):
        return int(next(read_events(self.run_folder().journal))[0]["pid"])

    def nothing_accepted(self):
        assert self.repository.resolve(ACCEPTED) is None

    def left_pending(self):
        """Leave a run by Ctrl-C as soon as its job is in the queue. Return its entry."""
        self.project.kernel(cosine=1.0)
        self.interrupt_at = "pending"
        entry = self.stage()
        self.interrupt_at = None
        return entry


@pytest.fixture
def desk(project, cluster, tmp_path):
    target = Slurm("cluster", str(tmp_path / "work"), python=sys.executable, device="emulator", disk_mb=8)
    return Desk(project, tmp_path / "work", target)


def test_accept_and_reject(desk, cluster):
    desk.project.kernel(cosine=1.0)
    entry = desk.stage("D1.2")
    assert (entry.verdict, entry.reason) == ("ACCEPT", ""), desk.said
    assert desk.repository.resolve(ACCEPTED) == entry.candidate.commit
    desk.project.kernel(cosine=0.4)
    entry = desk.stage("D1.2")
    assert entry.verdict == "REJECT_GATE"


def test_waits_in_the_queue_and_says_so(desk, cluster):
    busy = [cluster.occupy() for _ in cluster.NODES]
    before = cluster.occupy()
    desk.project.kernel(cosine=1.0)
    thread, results = desk.in_background()
    desk.wait_for("pending: ")
    desk.wait_for("1 ahead")
    for job in (*busy, before):
        cluster.ask("scancel", job)
    thread.join()
    assert results[0].verdict == "ACCEPT", desk.said


def test_ctrl_c_leaves_a_job_in_the_queue(desk, cluster, monkeypatch):
    monkeypatch.setattr("harness.client.driver.CANCEL_WITHIN_S", 0.0)
    busy = [cluster.occupy() for _ in cluster.NODES]
    entry = desk.left_pending()
    assert (entry.verdict, entry.closed) == ("UNKNOWN", False)
    for job in busy:
        cluster.ask("scancel", job)
    assert desk.driver.resume(entry.run, desk.target).verdict == "ACCEPT"


def test_cancel(desk, cluster):
    """A run can be cancelled while it runs and while it is pending."""
    desk.project.kernel(cosine=1.0, sleep=60)
    thread, results = desk.in_background()
    desk.wait_for("gate")
    desk.driver.cancel(desk.newest().run, desk.target)
    thread.join()
    assert results[0].verdict == "CANCELLED" and "cancelled by" in results[0].reason, results[0].reason
    desk.said.clear()
    for _ in cluster.NODES:
        cluster.occupy()
    thread, results = desk.in_background()
    desk.wait_for("pending")
    desk.driver.cancel(desk.newest().run, desk.target)
    thread.join()
    assert (results[0].verdict, results[0].closed) == ("CANCELLED", True)


def test_cancelled_by_others(desk, cluster, monkeypatch):
    monkeypatch.setattr("remote.slurm.VISIBLE_S", 600.0)
    desk.project.kernel(cosine=1.0, sleep=60)
    thread, results = desk.in_background()
    desk.wait_for("gate")
    cluster.ask("scancel", desk.job())
    thread.join()
    assert (results[0].verdict, results[0].closed) == ("CANCELLED", True)
    assert "CANCELLED" in results[0].reason
    desk.nothing_accepted()


def test_cancelled_before_it_started(desk, cluster, monkeypatch):
    monkeypatch.setattr("remote.slurm.VISIBLE_S", 600.0)
    for _ in cluster.NODES:
        cluster.occupy()
    desk.project.kernel(cosine=1.0)
    thread, results = desk.in_background()
    desk.wait_for("pending")
    cluster.ask("scancel", desk.job())
    asked = time.monotonic()
    thread.join()
    assert (results[0].verdict, results[0].closed) == ("CANCELLED", True)
    assert time.monotonic() - asked < 600.0, "it waited for VISIBLE_S"


def test_job_that_slurm_has_forgotten(desk, cluster, monkeypatch):
    """Slurm purges a job minutes after its end; here it never knew the number."""
    monkeypatch.setattr("harness.client.driver.CANCEL_WITHIN_S", 0.0)
    for _ in cluster.NODES:
        cluster.occupy()
    entry = desk.left_pending()
    (desk.run_folder().path / "slurm").write_text("999999\n")
    entry = desk.driver.resume(entry.run, desk.target)
    assert entry.verdict == "INFRA" and entry.reason.startswith("Slurm has forgotten job 999999"), entry.reason


@pytest.mark.parametrize(
    ("limit", "options", "said"),
    [("MaxTime=1", {"time_limit": "5"}, "PartitionTimeLimit; lower time_limit"),
     ("State=DOWN", {}, "PartitionDown; the partition is down"),
     ("State=UP", {"options": "--hold"}, "JobHeldUser; it is held: scontrol release")],
)  # fmt: skip
def test_job_that_cannot_start_gets_advice(desk, cluster, limit, options, said):
    before = {"MaxTime": "UNLIMITED", "State": "UP"}
    name = limit.partition("=")[0]
    cluster.ask("scontrol", "update", "PartitionName=urgent", limit)
    try:
        desk.target = replace(desk.target, partition="urgent", **options)
        desk.project.kernel(cosine=1.0)
        thread, results = desk.in_background()
        desk.wait_for(f"pending: {said}")
        desk.driver.cancel(desk.newest().run, desk.target)
        thread.join()
        assert results[0].verdict == "CANCELLED"
    finally:
        cluster.ask("scontrol", "update", "PartitionName=urgent", f"{name}={before[name]}")


def test_full_queue_and_short_arrays_are_named(desk, cluster, monkeypatch):
    monkeypatch.setattr("remote.slurm.SUBMITTER", submitter_that_waits(desk.place.root.parent, 3.0))
    desk.project.kernel(cosine=1.0)
    with cluster.configured("MaxJobCount=3", "MaxArraySize=2"):
        entry = desk.stage("D1.1", "D1.2", "D1.3")
        assert entry.verdict == "INFRA" and not entry.closed
        assert "Invalid job array specification; its MaxArraySize allows fewer tasks than 3" in entry.reason
        with pytest.raises(subprocess.TimeoutExpired):
            while True:
                cluster.occupy(patience_s=3.0)
        entry = desk.stage()
        assert entry.verdict == "INFRA" and not entry.closed
        assert "unable to accept job" in entry.reason and "queue is full (MaxJobCount)" in entry.reason
    cluster.cancel_all()
    assert desk.driver.resume(entry.run, desk.target).verdict == "ACCEPT", desk.said


def submitter_that_waits(folder, answer_s):
    """Return the submitter with another time limit of Slurm's commands."""
    made = folder / "submitter.py"
    made.write_text(re.sub(r"ANSWER_S = [\d.]+", f"ANSWER_S = {answer_s}", SUBMITTER.read_text()))
    return made


def test_a_sweep_of_a_branch_behind_accepted_is_not_stale(desk, cluster):
    desk.project.kernel(cosine=1.0)
    assert desk.stage().verdict == "ACCEPT"
    desk.project.git("switch", "--quiet", "--create", "behind", "HEAD^")
    desk.project.write("harness/judge/sweep.py", "")
    entry = desk.driver.sweep("D1.1", lambda tree: [1], desk.target)
    assert (entry.verdict, entry.closed) == ("ACCEPT", True), entry.reason


def test_killed_supervisor(desk, cluster):
    desk.project.kernel(cosine=1.0, sleep=60)
    thread, results = desk.in_background()
    desk.wait_for("gate")
    os.kill(desk.supervisor(), signal.SIGKILL)
    thread.join()
    assert results[0].verdict == "INFRA" and "Slurm ended job" in results[0].reason, results[0].reason
    desk.nothing_accepted()
    assert not desk.run_folder().tree.exists() and not desk.run_folder().home.exists()
    assert len(Repository(desk.place.repository).git("worktree", "list").splitlines()) == 1


def test_time_limit(desk, cluster):
    desk.project.kernel(cosine=1.0, sleep=600)
    thread, results = desk.in_background()
    desk.wait_for("gate")
    # Slurm refuses a time that is past when the request arrives.
    assert cluster.ask("scontrol", "update", f"JobId={desk.job()}", "EndTime=now+5seconds") == ""
    thread.join()
    assert results[0].verdict == "INFRA" and "TIMEOUT; raise time_limit" in results[0].reason, results[0].reason
    desk.nothing_accepted()


def test_out_of_memory(desk, cluster):
    if not cluster.limits_memory:
        pytest.skip("Slurm keeps no job to its memory here: needs cgroup v1 with a memory controller")
    desk.target = replace(desk.target, options="--mem=100M")
    desk.project.kernel(cosine=1.0, eat=400 << 20)
    entry = desk.stage()
    assert entry.verdict == "INFRA" and "killed from outside (out of memory?)" in entry.reason, entry.reason
    cluster.wait_for(lambda: cluster.ask("squeue", "--noheader", f"--jobs={desk.job()}", "--states=all",
                                         "--format=%T") == "OUT_OF_MEMORY")  # fmt: skip
    desk.nothing_accepted()


@pytest.mark.parametrize(("options", "verdict"), shortened(0, [("", "ACCEPT"), ("--no-requeue", "INFRA")], in_ci=1))
def test_preempted(desk, cluster, options, verdict):
    """A preempted run starts again from the beginning; with --no-requeue it ends with INFRA."""
    desk.target = replace(desk.target, options=f"--nodelist=n1 {options}")
    desk.project.kernel(cosine=1.0, sleep=4)
    thread, results = desk.in_background()
    desk.wait_for("gate")
    urgent = cluster.occupy("--partition=urgent", "--nodelist=n1")
    cluster.wait_for(lambda: cluster.ask("squeue", "--noheader", f"--jobs={urgent}", "--format=%T") == "RUNNING")
    cluster.ask("scancel", urgent)
    thread.join()
    assert results[0].verdict == verdict, (results[0].reason, desk.said)
    if verdict == "ACCEPT":
        assert any("restarted from the beginning" in text for text in desk.said)
    else:
        assert "PREEMPTED" in results[0].reason
        desk.nothing_accepted()


@pytest.mark.parametrize(("options", "verdict"), shortened(0, [("--no-requeue", "INFRA"), ("", "ACCEPT")], in_ci=1))
def test_node_that_dies(desk, cluster, options, verdict):
    desk.target = replace(desk.target, options=options)
    desk.project.kernel(cosine=1.0, sleep=4)
    thread, results = desk.in_background()
    desk.wait_for("gate")
    died = cluster.ask("squeue", "--noheader", f"--jobs={desk.job()}", "--format=%N")
    cluster.kill_node(died)
    thread.join()
    assert results[0].verdict == verdict, (results[0].reason, desk.said)
    if verdict == "INFRA":
        assert "NODE_FAIL" in results[0].reason
        desk.nothing_accepted()
    else:
        assert any("restarted from the beginning" in text for text in desk.said)


def test_controller_that_is_away_for_a_while(desk, cluster):
    desk.project.kernel(cosine=1.0, sleep=4)
    thread, results = desk.in_background()
    desk.wait_for("gate")
    cluster.controller.terminate()
    cluster.controller.wait()
    time.sleep(1.0)
    cluster.start_controller()
    thread.join()
    assert results[0].verdict == "ACCEPT", (results[0].reason, desk.said)


def test_full_file_system(desk, cluster):
    desk.place.root.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", desk.place.root], check=True)
    try:
        desk.project.kernel(cosine=1.0, fill="large files")
        entry = desk.stage()
        assert entry.verdict == "REJECT_GATE" and "filled the disk" in entry.reason, entry.reason
        desk.nothing_accepted()
    finally:
        subprocess.run(["umount", "--lazy", desk.place.root], check=True)


def test_two_users(desk, other_clone, tmp_path):
    """Both run at the same time, on different nodes. The later one is merged, tested again and accepted."""
    other = Desk(other_clone, tmp_path / "work", desk.target)
    desk.project.kernel(cosine=1.0, sleep=2)
    other.project.write("kernel/bobs.py", "BOB = 1\n")
    first, results = desk.in_background()
    second, others = other.in_background()
    first.join()
    second.join()
    assert results[0].verdict == others[0].verdict == "ACCEPT", (results, others)
    assert any("merged with it" in text for text in desk.said + other.said)


@pytest.mark.parametrize("cut_at", shortened(0, [10, 14, 9, 12, 16], in_ci=2))
def test_cut_link(desk, cluster, monkeypatch, cut_at):
    """If the link breaks around the submission, exactly one job is submitted and its verdict is fetched."""
    monkeypatch.setattr("harness.client.driver.RETRY_AFTER_S", (0.1, 0.1))
    target = desk.target
    desk.target = Faulty(target, [cut_at], target.name)
    desk.project.kernel(cosine=1.0)
    entry = desk.stage()
    if not entry.closed:
        entry = desk.driver.resume(entry.run, target)
    assert entry.verdict == "ACCEPT", entry.reason
    named = cluster.ask("squeue", "--noheader", "--states=all", f"--name={entry.run}", "--format=%i")
    assert len(named.split()) == 1


def test_killed_client(desk, cluster):
    desk.project.kernel(cosine=1.0, sleep=2)
    desk.stage_until_killed()
    entry = desk.newest()
    assert entry.sent and not entry.closed
    assert desk.driver.resume(entry.run, desk.target).verdict == "ACCEPT"


def test_what_slurm_refuses_is_said_in_its_words(desk):
    desk.target = replace(desk.target, partition="nowhere")
    desk.project.kernel(cosine=1.0)
    entry = desk.stage()
    assert entry.verdict == "INFRA" and "invalid partition specified: nowhere" in entry.reason


def test_node_that_is_marked_broken_is_not_asked_for(desk, cluster):
    desk.place.locks.mkdir(parents=True)
    desk.place.broken("n1").write_text("its GPU is sick\n")
    desk.project.kernel(cosine=1.0)
    entry = desk.stage()
    assert entry.verdict == "ACCEPT"
    assert any("on n2" in text for text in desk.said), desk.said


def test_out_of_a_shell_that_is_a_job_itself(desk, monkeypatch):
    """SLURM variables in the client's environment have no effect on runs on this machine."""
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "7")
    desk.project.kernel(cosine=1.0)
    assert desk.stage().verdict == "ACCEPT"


def test_many_milestones_are_one_job_array(desk, cluster):
    desk.project.kernel(cosine=1.0)
    entry = desk.stage("D1.1", "D1.2", "D1.3")
    assert entry.verdict == "ACCEPT", (entry.reason, desk.said)
    assert [part.subject.milestone for part in entry.parts] == ["D1.1", "D1.2", "D1.3"]
    numbers = [(desk.place.run(part.run).path / "slurm").read_text().strip() for part in entry.parts]
    assert [number.partition("_")[2] for number in numbers] == ["0", "1", "2"]
    folder = desk.driver.store.folder(entry.run)
    assert all((folder / f"{part.subject.milestone}/record.json").exists() for part in entry.parts)
    desk.project.kernel(cosine=1.0, cosine_D1_3=0.4)
    entry = desk.stage("D1.1", "D1.2", "D1.3")
    assert entry.verdict == "REJECT_STAGE" and entry.reason.startswith("D1.3: "), entry.reason


def test_task_of_an_array_that_others_cancel(desk, cluster, monkeypatch):
    monkeypatch.setattr("remote.slurm.VISIBLE_S", 600.0)
    desk.project.kernel(cosine=1.0, sleep_D1_2=60)
    thread, results = desk.in_background("D1.1", "D1.2", "D1.3")
    desk.wait_for("D1.1  ACCEPT")
    part = desk.newest().parts[1]
    cluster.ask("scancel", (desk.place.run(part.run).path / "slurm").read_text().strip())
    thread.join()
    assert results[0].verdict == "CANCELLED" and results[0].reason.startswith("D1.2: "), results[0].reason
    desk.nothing_accepted()
