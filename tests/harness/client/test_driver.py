"""The driver on the embedded target: from the working tree to an accepted commit, and every way in which that fails."""

import os
import shutil
import signal
import sys
import threading
import time
import tomllib
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest

from harness.client import acceptance, results, vouched
from harness.client.candidate import CandidateError, candidate_ref
from harness.client.doctor import examine
from harness.client.driver import DEFAULT_LIMITS, Driver, NothingToDo
from harness.client.plan import Planner, TimeLimits
from harness.client.run_store import RunStore, RunStoreError
from harness.host import lock
from harness.host.job import Workplace
from harness.host.journal import read_events
from harness.host.protected import ProtectedError, Unpin
from harness.host.repository import ACCEPTED, Repository
from harness.host.ruling import RULING_NAME, decode
from harness.judge.measure import in_words
from harness.report.record import load, load_all
from remote.errors import Refused, Untrusted
from remote.faulty import Faulty
from remote.local import Local
from remote.ssh import Ssh
from remote.target import Target
from stages.catalog import CATALOG
from stages.listing import listing
from tests.conftest import Project, tolerances
from tests.tiers import shortened


@dataclass
class Heard:
    """Keeps the progress that a driver reports."""

    said: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        self.said.append(text)

    def doing(self, text: str) -> None:
        self.done.append(text)


class Bench:
    """A project, a target, and a driver."""

    def __init__(self, project, workdir):
        self.project = project
        self.place = Workplace(workdir)
        self.target: Target = Local("sim", str(workdir), disk_mb=8)
        self.heard = Heard()
        repository = Repository(project.path)
        self.driver = Driver(repository, RunStore(project.path / "results"), self.heard)
        self.repository = repository

    def stage(self, *milestones, target=None, unpin=None):
        return self.driver.judge(milestones or ("D1.1",), target or self.target, unpin or Unpin())


@pytest.fixture
def bench(project, tmp_path):
    return Bench(project, tmp_path / "host")


@pytest.fixture(scope="module")
def accepted_once(new_project, tmp_path_factory):
    """Provide the folder of a clone and of a workplace in which D1.1 was accepted."""
    folder = tmp_path_factory.mktemp("accepted")
    assert Bench(new_project(folder / "clone"), folder / "host").stage().verdict == "ACCEPT"
    return folder


@pytest.fixture
def used(accepted_once, tmp_path):
    """Provide a bench on which D1.1 was accepted: a copy, which takes a tenth of the time of a run."""
    shutil.copytree(accepted_once, tmp_path, dirs_exist_ok=True)
    project = Project(tmp_path / "clone")
    project.git("update-index", "--refresh")  # the index knows the inodes of the first
    return Bench(project, tmp_path / "host")


def in_the_gate(bench):
    """Start a run in the background and wait for its gate. Return the thread, and a list that receives the run."""
    result = []
    worker = threading.Thread(target=lambda: result.append(bench.stage()))
    worker.start()
    while not any(line.startswith("gate") for line in bench.heard.done):
        assert worker.is_alive(), "it ended before its gate"
        time.sleep(0.02)
    return worker, result


def test_accept_moves_accepted_and_the_branch_and_keeps_results(bench):
    bench.project.kernel(cosine=1.0)
    files = bench.project.state()["files"]
    entry = bench.stage("D1.2")
    assert (entry.verdict, entry.closed) == ("ACCEPT", True), entry.reason
    commit = entry.candidate.commit
    assert bench.project.git("rev-parse", "accepted", "work") == f"{commit}\n{commit}"
    assert bench.project.git("status", "--porcelain") == ""
    assert bench.project.state()["files"] == files
    assert acceptance.judged_on(bench.repository, commit) == {"D1.2": (commit, True), "D1.1": (commit, True)}
    folder = bench.driver.store.folder(entry.run)
    assert load(folder).milestone == "D1.2" and load(folder / "gate").milestone == "D1.1"
    assert load(folder).tree.commit == commit and load(folder).run == entry.run
    assert (folder / "verdict.json").exists() and (folder / "logs/stage.log").exists()
    assert [n["milestone"] for n in vouched.notes(bench.repository, commit)] == ["D1.2"]
    assert any(line.startswith("gate") for line in bench.heard.said)
    assert [line for line in bench.heard.said if "seed=0" in line] == ["  hd=64 seed=0 passed in 0.0 s"] * 2


@pytest.mark.long
def test_an_acceptance_says_which_milestones_were_not_judged_on_its_tree(bench):
    first = bench.stage("D1.2").candidate.commit
    bench.project.kernel(cosine=1.0, other=1)
    second = bench.stage().candidate.commit
    assert acceptance.judged_on(bench.repository, second) == {"D1.2": (first, False), "D1.1": (second, True)}
    assert f"not judged on this tree: D1.2 since {first[:12]}; make ratchet judges them" in bench.heard.said
    assert acceptance.not_judged_on_tip(bench.repository) == {"D1.2": first}


@pytest.mark.long
def test_a_run_judges_cases_of_what_was_accepted_before_and_of_what_it_needs(bench):
    """All that was accepted on this tree was judged on it."""

    def beside(entry):
        assert entry.verdict == "ACCEPT", entry.reason
        cases = [case.name for _, record in load_all(bench.driver.store.folder(entry.run), []) for case in record.cases]
        return {step.milestone: step.beside for step in entry.job.steps if step.milestone}, cases

    assert beside(bench.stage("D1.2")) == ({"D1.1": [], "D1.2": []}, ["hd=64"] * 4)
    assert beside(bench.stage("D1.3")) == ({"D1.1": [], "D1.3": []}, ["hd=64"] * 4)
    bench.project.kernel(cosine=1.0, other=1)
    steps, cases = beside(bench.stage("D1.3"))
    assert steps == {"D1.1": ["D1.2"], "D1.3": ["D1.2"]}
    assert sorted(cases) == ["D1.2 hd=64"] * 2 + ["hd=64"] * 4
    assert beside(bench.stage("D1.2")) == ({"D1.1": [], "D1.2": []}, ["hd=64"] * 4)


@pytest.mark.parametrize(
    ("judged", "beside"), [([], ["D1.4", "D1.3", "D1.2"]), (["D1.4"], ["D1.3", "D1.2"]), (["D1.4", "D1.2"], ["D1.3"])]
)
def test_a_run_judges_cases_of_all_that_its_milestone_builds_on(judged, beside):
    planner = Planner(["D1.5"], "run", "python", TimeLimits(), judged=frozenset(["D1.1", "D1.5", *judged]))
    steps = {step.milestone: step for step in planner.judging("sim", "emulator").steps if step.milestone}
    assert steps["D1.5"].beside == beside and steps["D1.1"].beside == []
    assert " ".join(["--beside", *beside, "--out"]) in " ".join(steps["D1.5"].argv)


def test_the_gate_draws_configurations_that_it_does_not_have_in_every_run():
    """Its cases are of milestones that were accepted before, and not judged on this tree."""
    accepted = [each.id for each in CATALOG]
    planner = Planner(["D1.1"], "run", "python", TimeLimits(), accepted, frozenset(["D1.1", "D4"]), listing())
    others = [each for each in accepted if each not in ("D1.1", "D4")]
    drawn = {tuple(planner._beside("D1.1", "emulator")) for _ in range(50)}
    assert all(list(each[: len(others)]) == others for each in drawn)
    groups, named = {each[len(others) :] for each in drawn}, tomllib.loads(listing())["D1.1 drawn"].values()
    assert len(groups) > 1 and groups <= {tuple(e for e in each if not e.startswith("D4 ")) for each in named} - {()}
    assert Planner(["D1.1"], "run", "python", TimeLimits(), [], frozenset(), listing())._beside("D1.1", "cuda") == []


@pytest.mark.parametrize(
    ("device", "processors", "wanted"),
    [("emulator", 1, 1), ("emulator", 2, 1), ("emulator", 4, 7), ("emulator", 6, 12), ("cuda", 1, 12)],
)
def test_more_processors_have_time_for_more_configurations(device, processors, wanted):
    accepted, groups = [each.id for each in CATALOG], tomllib.loads(listing())["D1.1 drawn"].values()
    planner = Planner(["D1.1"], "run", "python", TimeLimits(), accepted, frozenset(), listing(), processors)
    drawn = planner._beside("D1.1", device)[len(accepted) :]
    assert len(groups) == 12 and sum(set(each) <= set(drawn) for each in groups) == wanted
    assert len(drawn) == sum(len(each) for each in groups if set(each) <= set(drawn))


def test_a_note_that_a_fetch_brought_vouches_for_nothing(used):
    """No run of this clone made it. One of the remote that is trusted counts among what was fetched of it."""
    repository, project = used.repository, used.project
    commit, tip = project.git("commit-tree", "-p", "HEAD", "-m", "by hand", "HEAD^{tree}"), repository.resolve(ACCEPTED)
    assert tip is not None
    (line,) = vouched.notes(repository, tip)
    vouched.append(repository, commit, line)
    assert vouched.is_vouched(repository, tip) and not vouched.is_vouched(repository, commit)
    project.git("update-ref", f"{vouched.FETCHED}/origin/verdicts", "refs/notes/verdicts")
    assert vouched.is_vouched(repository, commit)


def test_reject_keeps_candidate_and_note_and_touches_nothing(used):
    used.project.kernel(cosine=0.3)
    before, accepted = used.project.state(), used.project.git("rev-parse", "accepted")
    entry = used.stage("D1.2")
    assert entry.verdict == "REJECT_GATE" and "cosine 0.3" in entry.reason
    assert used.project.state() == before
    assert used.project.git("rev-parse", "accepted") == accepted
    assert used.project.git("rev-parse", entry.candidate.ref) == entry.candidate.commit
    assert vouched.notes(used.repository, entry.candidate.commit)[0]["verdict"] == "REJECT_GATE"
    assert load(used.driver.store.folder(entry.run) / "gate").verdict == "REJECT_STAGE"
    again = used.stage("D1.2").subject
    assert again.rejected == [entry.run] and again.remarks == [f"this tree was rejected before, by {entry.run}"]


def test_unchanged_tree_is_judged_once_then_refused(used):
    with pytest.raises(NothingToDo, match="nothing to commit"):
        used.stage()
    assert used.stage("D1.2").verdict == "ACCEPT", "another milestone of the same commit is something to do"
    assert acceptance.accepted_milestones(used.repository) == {"D1.1": ["sim"], "D1.2": ["sim"]}


@pytest.mark.long
def test_a_first_acceptance_names_the_digest_of_what_judges(bench):
    entry = bench.stage()
    (first,) = [line for line in bench.heard.said if line.startswith("first run of this clone")]
    assert entry.subject.pins[:16] in first
    bench.heard.said.clear()
    bench.project.kernel(cosine=1.0)
    bench.stage()
    assert not any("first run of this clone" in line for line in bench.heard.said)


def test_a_fresh_clone_starts_at_the_accepted_commit_of_its_origin(used, tmp_path):
    """Edits of what judges that were committed after it are compared with it, and rejected by name."""
    accepted = used.project.git("rev-parse", "accepted")
    used.project.write("stages/tolerances.toml", "cosine = 0.1\n")
    used.project.git("commit", "--quiet", "--all", "--message", "quietly")
    clone = tmp_path / "fresh"
    used.project.git("clone", "--quiet", str(used.project.path), str(clone))
    heard = Heard()
    driver = Driver(Repository(clone), RunStore(clone / "results"), heard)
    with pytest.raises(ProtectedError, match=r"stages/tolerances\.toml"):
        driver.judge(["D1.1"], used.target)
    assert heard.said == [
        f"accepted starts at origin/accepted, {accepted[:12]}, whose judging files your branch contains"
    ]
    assert driver.repository.resolve(ACCEPTED) == accepted
    assert vouched.is_vouched(driver.repository, accepted), "its note came along"


def test_the_accepted_commit_of_a_fork_is_nobodys_base(bench, tmp_path):
    """Anybody can push a branch `accepted` and a note: its pins would judge."""
    bench.project.git("clone", "--quiet", str(bench.project.path), str(tmp_path / "mine"))
    bench.project.write("stages/tolerances.toml", "cosine = 0.1\n")
    bench.project.git("commit", "--quiet", "--all", "--message", "looser")
    fork, mine = Repository(bench.project.path), Repository(tmp_path / "mine")
    tip = bench.project.git("rev-parse", "HEAD")
    bench.project.git("update-ref", ACCEPTED, tip)
    vouched.append(fork, tip, {"run": "r", "milestone": "D1.1", "target": "sim", "verdict": "ACCEPT", "reason": ""})
    mine.git("remote", "add", "fork", str(bench.project.path))
    mine.git("fetch", "--quiet", "fork")
    driver = Driver(mine, RunStore(tmp_path / "mine/results"), Heard())
    with pytest.raises(
        CandidateError, match=r"fork/accepted is at .*stages/tolerances\.toml.*git branch accepted fork"
    ):
        driver.judge(["D1.1"], bench.target)
    assert mine.resolve(ACCEPTED) is None


@pytest.mark.long
def test_a_rejection_stands_without_its_files(used, monkeypatch):
    """A candidate that leaves files which cannot be fetched loses none of its verdict."""

    def refuse(*_):
        raise Untrusted("result 'x' is not allowed")

    monkeypatch.setattr(results, "bring_in", refuse)
    used.project.kernel(cosine=0.3)
    entry = used.stage("D1.2")
    assert (entry.verdict, entry.closed) == ("REJECT_GATE", True)
    assert (used.driver.store.folder(entry.run) / "verdict.json").exists()
    assert vouched.notes(used.repository, entry.candidate.commit)[0]["verdict"] == "REJECT_GATE"
    assert any("not all results were fetched" in line for line in used.heard.said)


@pytest.mark.long
def test_an_accepted_commit_that_no_run_accepted_is_nobodys_base(bench):
    """A ref moved by somebody else, such as a rejected candidate, moves nobody's work there."""
    entry = bench.stage()
    bench.project.kernel(cosine=0.3)
    rejected = bench.stage("D1.2")
    bench.project.git("update-ref", ACCEPTED, rejected.candidate.commit)
    fix = f"git update-ref {ACCEPTED} {entry.candidate.commit[:12]}"
    with pytest.raises(CandidateError, match=f"has no note of an ACCEPT.*{fix}"):
        bench.stage()
    with pytest.raises(CandidateError, match="has no note of an ACCEPT"):
        acceptance.accepted_milestones(bench.repository)
    (finding,) = [each for each in examine(bench.target, bench.repository) if each.need == "accepted"]
    assert not finding.holds and finding.fix.endswith(fix)
    bench.project.git(*fix.split()[1:])
    bench.project.kernel(cosine=1.0)
    assert bench.stage().verdict == "ACCEPT"


@pytest.mark.long
def test_an_acceptance_is_taken_back_with_a_reason(bench):
    first = bench.stage()
    bench.project.kernel(cosine=1.0)
    second = bench.stage()
    revoked = vouched.revoke(bench.repository, second.run, second.candidate.commit, "ada", "wrong on a B200")
    assert revoked == f"accepted is back at {first.candidate.commit[:12]}"
    assert bench.project.git("rev-parse", "accepted") == first.candidate.commit
    noted = vouched.notes(bench.repository, second.candidate.commit)
    assert (noted[0]["verdict"], noted[0]["reason"]) == ("REVOKED", "revoked by ada: wrong on a B200")
    with pytest.raises(CandidateError, match="revoked already"):
        vouched.revoke(bench.repository, second.run, second.candidate.commit, "ada", "again")
    bench.project.kernel(cosine=0.9999999)
    assert bench.stage().verdict == "ACCEPT"
    bench.heard.said.clear()
    bench.project.kernel(cosine=1.0)
    bench.stage()
    assert any("wrong on a B200" in line for line in bench.heard.said), "later verdicts rest on it"


def test_pinned_path_is_refused_and_recorded_when_meant(used):
    used.project.write("stages/tolerances.toml", tolerances("as measured"))
    with pytest.raises(ProtectedError, match=r"stages/tolerances\.toml"):
        used.stage()
    assert used.stage(unpin=Unpin(("stages",), "measured on a B200")).verdict == "ACCEPT"
    noted = vouched.notes(used.repository, used.project.git("rev-parse", "accepted"))[-1]
    assert (noted["unpinned"], noted["because"]) == (["stages"], "measured on a B200")


@pytest.mark.long
def test_pinned_change_that_was_committed_is_refused_as_well(used):
    used.project.write("stages/tolerances.toml", "cosine = 0.1\n")
    used.project.git("commit", "--quiet", "-am", "quietly")
    with pytest.raises(ProtectedError, match=r"stages/tolerances\.toml"):
        used.stage()


def test_a_branch_without_accepted_is_asked_to_merge(bench):
    bench.project.kernel(cosine=1.0)
    bench.stage()
    bench.project.git("switch", "--quiet", "-c", "old", "HEAD~1")
    with pytest.raises(CandidateError, match="git merge accepted"):
        bench.stage()


@pytest.mark.long
def test_dirty_host_checkout_is_never_used(used):
    for run in (used.place.root / "runs").iterdir():
        (run / "tree/kernel").mkdir(parents=True)
        (run / "tree/kernel/fmha.py").write_text("cosine = 1.0\n")
        (run / "engine/harness/judge/run.py").write_text("raise SystemExit(0)\n")
    used.project.kernel(cosine=0.1)
    assert used.stage().verdict == "REJECT_GATE"


@pytest.mark.long
def test_others_accepting_meanwhile_makes_the_change_stale_then_merged(bench):
    """Two changes have one base. The compare-and-swap rejects the second, which is merged, tested, and accepted."""
    bench.first = bench.stage()
    base = bench.project.git("rev-parse", "accepted")
    bench.project.kernel(cosine=1.0, sleep_D1_2=1.5)
    result = []
    worker = threading.Thread(target=lambda: result.append(bench.stage("D1.2")))
    worker.start()
    while not any("stage" in line for line in bench.heard.done):
        time.sleep(0.05)
    env = {f"GIT_{w}_{k}": "x" for w in ("AUTHOR", "COMMITTER") for k in ("NAME", "EMAIL")}
    bench.repository.git("read-tree", base, env=env | {"GIT_INDEX_FILE": str(bench.place.root / "index")})
    blob = bench.repository.git("hash-object", "-w", "--stdin", stdin="OTHER = 1\n")
    index = {"GIT_INDEX_FILE": str(bench.place.root / "index")}
    bench.repository.git("update-index", "--add", "--cacheinfo", f"100644,{blob},kernel/other.py", env=index)
    tree = bench.repository.git("write-tree", env=index)
    other = bench.repository.git("commit-tree", tree, "-p", base, "-m", "other", env=env)
    ruled = decode((bench.driver.store.folder(bench.first.run) / RULING_NAME).read_bytes(), bench.first.run, base)
    elsewhere = replace(ruled.subject, run=ruled.subject.run[:-6] + "abcdef", commit=other)
    bench.repository.git("update-ref", candidate_ref(elsewhere.run), other)
    acceptance.add_note(bench.repository, replace(ruled, subject=elsewhere))
    bench.repository.move(ACCEPTED, other, base, "by another")
    worker.join()
    entry = result[0]
    assert entry.verdict == "ACCEPT", entry.reason
    assert any("merged with it" in line for line in bench.heard.said)
    assert bench.project.git("show", "accepted:kernel/other.py") == "OTHER = 1"
    assert "1.0" in bench.project.git("show", "accepted:kernel/fmha.py")
    assert entry.stays.startswith("work stays behind accepted: your change was accepted merged with newer work")
    assert entry.stays.endswith("to catch up: git commit -a, git merge accepted")
    bench.project.git("commit", "-a", "--quiet", "--message", "Mine")
    bench.project.git("merge", "--quiet", "accepted", "--message", "Theirs")
    assert bench.project.git("diff", "accepted") == "", "the command does what it says"
    stale = [known for known in bench.driver.store.newest_first() if known.verdict == "STALE"]
    assert len(stale) == 1


def test_results_altered_on_the_host_are_tampered(bench, monkeypatch):
    bench.project.kernel(cosine=1.0)
    fetch = type(bench.driver)._conclude

    def spoil(gate, entry, host, ruling, job=None):
        path = bench.place.run(entry.run).out / "record.json"
        path.write_bytes(path.read_bytes().replace(b"0.01", b"0.02"))
        return fetch(gate, entry, host, ruling, job)

    monkeypatch.setattr(Driver, "_conclude", spoil)
    entry = bench.stage()
    assert entry.verdict == "TAMPERED" and "record.json" in entry.reason
    assert bench.repository.resolve(ACCEPTED) is None


@pytest.mark.parametrize("cut", shortened(1, [10, 1, 4, 7, 12, 2, 3, 5, 6, 8, 9, 11], in_ci=5))
def test_link_cut_anywhere_is_retried_or_resumed(bench, cut):
    """Whichever command is cut, before or during it, the run is accepted, exactly once."""
    bench.project.kernel(cosine=1.0)
    entry = bench.stage(target=Faulty(bench.target, [cut]))
    assert entry.verdict == "ACCEPT", entry.reason
    assert any("cut on purpose" in line for line in bench.heard.said), "nothing was cut"
    assert len(list((bench.place.root / "runs").iterdir())) == 1
    events = [e for run in (bench.place.root / "runs").iterdir() for e, _ in read_events(run / "journal.jsonl")]
    assert sum(event["event"] == "start" for event in events) == 1


def test_link_that_stays_cut_is_unknown_and_resume_fetches_the_verdict(bench, monkeypatch):
    monkeypatch.setattr("harness.client.driver.RETRY_AFTER_S", (0.0, 0.0))
    bench.project.kernel(cosine=1.0)
    before = bench.project.state()
    entry = bench.stage(target=Faulty(bench.target, range(8, 10_000)))
    assert (entry.verdict, entry.closed) == ("UNKNOWN", False)
    assert bench.project.state() == before and bench.repository.resolve(ACCEPTED) is None
    resumed = bench.driver.resume(entry.run, bench.target)
    assert (resumed.verdict, resumed.closed) == ("ACCEPT", True)
    assert bench.driver.resume(entry.run, bench.target).verdict == "ACCEPT"
    assert bench.project.git("rev-parse", "accepted") == entry.candidate.commit


@pytest.mark.long
def test_a_ref_that_another_run_is_pushing_is_waited_for(used, monkeypatch):
    """Two runs of one clone push the same `accepted` at the same time; git locks it for one of them."""
    used.project.kernel(cosine=1.0, sleep=0.01)
    held = used.place.repository / "refs/heads/accepted.lock"
    held.touch()
    waits = []

    def freed(seconds):
        waits.append(seconds)
        held.unlink()

    monkeypatch.setattr("harness.client.host.time", SimpleNamespace(sleep=freed))
    entry = used.stage()
    assert entry.verdict == "ACCEPT", entry.reason
    assert len(waits) == 1


def test_killed_supervisor_reads_infra_and_rejects_nothing(bench):
    bench.project.kernel(cosine=1.0, sleep=30)
    worker, result = in_the_gate(bench)
    run = next((bench.place.root / "runs").iterdir())
    os.kill(int(next(read_events(run / "journal.jsonl"))[0]["pid"]), signal.SIGKILL)
    worker.join()
    assert result[0].verdict == "INFRA" and "died without a verdict" in result[0].reason
    assert result[0].closed, "there is nothing that a resume could find"
    assert not (run / "tree").exists() and not (run / "home").exists()
    assert len(Repository(bench.place.repository, plain=True).git("worktree", "list").splitlines()) == 1
    assert bench.repository.resolve(ACCEPTED) is None
    assert vouched.notes(bench.repository, result[0].candidate.commit) == []


def test_interrupt_leaves_the_run_and_a_second_one_ends_it(bench, monkeypatch):
    bench.project.kernel(cosine=1.0, sleep=20)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("harness.client.driver.watch", interrupt)
    monkeypatch.setattr("harness.client.driver.CANCEL_WITHIN_S", 0.0)
    entry = bench.stage()
    assert (entry.verdict, entry.closed) == ("UNKNOWN", False)
    assert any(f"make resume RUN={entry.run}" in line for line in bench.heard.said)
    monkeypatch.setattr("harness.client.driver.time.sleep", interrupt)
    assert bench.driver.resume(entry.run, bench.target).reason == "asked to end"
    monkeypatch.undo()
    ended = bench.driver.resume(entry.run, bench.target)
    assert ended.verdict == "CANCELLED"
    assert not lock.is_held(bench.place.locks / "gpu0.lock")


def test_cancel_by_another_process(bench):
    bench.project.kernel(cosine=1.0, sleep=30)
    worker, result = in_the_gate(bench)
    bench.driver.cancel(next(bench.driver.store.newest_first()).run, bench.target)
    worker.join()
    assert result[0].verdict == "CANCELLED"
    with pytest.raises(NothingToDo, match="has ended already: CANCELLED"):
        bench.driver.cancel(result[0].run, bench.target)


@pytest.mark.long
def test_ratchet_runs_several_milestones_in_one_run(bench):
    bench.project.kernel(cosine=1.0, cosine_D1_3=0.1)
    entry = bench.stage("D1.1", "D1.2", "D1.3")
    assert entry.verdict == "REJECT_STAGE" and "D1.3" in entry.reason
    assert load(bench.driver.store.folder(entry.run) / "D1.2").verdict == "ACCEPT"


@pytest.mark.long
def test_milestones_go_side_by_side_after_the_gate(bench, monkeypatch):
    """As many milestones run in parallel as there are cores, the longest first, once the gate has passed."""
    monkeypatch.setattr(Local, "at_once", 2)
    bench.project.kernel(cosine=1.0, sleep_D1_2=3, sleep_D1_3=3)
    entry = bench.stage("D1.3", "D1.2")
    assert entry.verdict == "ACCEPT", entry.reason
    rulings = [
        decode((bench.place.run(part.run).path / RULING_NAME).read_bytes(), part.run, part.subject.commit)
        for part in entry.parts
    ]
    gate, *others = rulings
    assert [each.subject.milestone for each in rulings] == ["D1.1", "D1.2", "D1.3"]
    assert [part.turn for part in entry.parts[1:]] == [0, 1], "the pins predict more cycles for D1.2"
    began = [read_phase(bench, each.subject.run, "record stage") for each in others]
    assert gate.ended <= min(began)
    assert max(each.started for each in others) < min(each.ended for each in others)
    bench.project.kernel(cosine=1.0, cosine_D1_1=0.4, sleep_D1_2=60)
    entry = bench.stage("D1.2", "D1.3")
    assert entry.verdict == "REJECT_GATE" and entry.reason.startswith("D1.1: "), entry.reason
    assert not (bench.driver.store.folder(entry.run) / "D1.2/record.json").exists()


def read_phase(bench, run, name):
    """Return the time at which a phase of a run began."""
    events = (event for event, _ in read_events(bench.place.run(run).journal))
    return next(event["t"] for event in events if event["event"] == "phase" and event["name"] == name)


@pytest.mark.long
def test_gpu_target_compiles_here_first(bench, monkeypatch):
    """A compile error or hang is found locally, and nothing is submitted to the GPU host."""
    monkeypatch.setattr("harness.client.driver.importlib.util.find_spec", lambda name: object())

    class Unwanted(Local):
        def submit(self, link, run):
            raise AssertionError("submitted to the GPU host")

    unwanted = Unwanted("b200", bench.target.workdir, device="cuda", disk_mb=8)
    bench.project.kernel(compile="error")
    entry = bench.stage(target=unwanted)
    assert entry.verdict == "COMPILE_ERROR" and "no such layout" in entry.reason and entry.closed
    bench.project.kernel(compile_hang=True)
    bench.driver.limits = TimeLimits(compile_s=1.0)
    assert bench.stage(target=unwanted).verdict == "COMPILE_HANG"
    bench.driver.limits = DEFAULT_LIMITS
    bench.project.kernel(cosine=1.0)
    with pytest.raises(AssertionError, match="submitted"):
        bench.stage(target=unwanted)


@pytest.mark.parametrize(
    ("lack", "words"),
    [
        ({"python": ""}, "b200: no interpreter .*/env/bin/python there: set python in remote/targets.toml"),
        ({"disk_mb": 1 << 40}, "make clean-runs"),
    ],
)
def test_what_the_host_lacks_is_known_before_anything_is_compiled(bench, monkeypatch, lack, words):
    monkeypatch.setattr("harness.client.driver.Driver._compile_here", lambda *_: pytest.fail("compiled"))
    with pytest.raises(Refused, match=words):
        bench.stage(target=Local("b200", bench.target.workdir, **({"device": "cuda", "disk_mb": 8} | lack)))
    (entry,) = bench.driver.store.newest_first()
    assert (entry.verdict, entry.closed) == ("INFRA", True)


@pytest.mark.long
def test_without_a_compiler_here_the_run_says_so(bench, monkeypatch):
    monkeypatch.setattr("harness.client.driver.importlib.util.find_spec", lambda name: None)
    host = Local("b200", bench.target.workdir, device="cuda", disk_mb=8)
    entry = bench.stage(target=host)
    assert any("not compiled locally" in line for line in bench.heard.said)
    assert entry.verdict == "INFRA" and "nvidia-smi" in entry.reason


@pytest.mark.long
def test_what_was_accepted_here_and_by_others_comes_together(bench, other_clone, tmp_path):
    """One change was accepted on the embedded target only, another by somebody else on a shared target."""
    shared = Local("b200", str(tmp_path / "shared"), disk_mb=8, shared=True)
    other = Driver(Repository(other_clone.path), RunStore(other_clone.path / "results"), Heard())
    other_clone.write("kernel/theirs.py", "THEIRS = 1\n")
    assert other.judge(["D1.1"], shared).verdict == "ACCEPT"
    bench.project.write("kernel/ours.py", "OURS = 1\n")
    assert bench.stage().verdict == "ACCEPT"
    ours = bench.project.git("rev-parse", "accepted")
    entry = bench.stage("D1.2", target=shared)
    assert entry.verdict == "ACCEPT", entry.reason
    assert any("merged with it" in line for line in bench.heard.said)
    accepted = bench.project.git("rev-parse", "accepted")
    theirs = other_clone.git("rev-parse", "accepted")
    assert bench.repository.is_ancestor(ours, accepted) and bench.repository.is_ancestor(theirs, accepted)
    other_clone.write("kernel/more.py", "MORE = 1\n")
    assert other.judge(["D1.2"], shared).verdict == "ACCEPT"
    assert other.repository.is_ancestor(accepted, other_clone.git("rev-parse", "accepted"))


def test_shallow_clone_goes_through_as_well(bench, tmp_path):
    bench.project.kernel(cosine=1.0)
    bench.project.git("commit", "--quiet", "--all", "--message", "Second")
    shallow = tmp_path / "shallow"
    bench.project.git("clone", "--quiet", "--depth=1", f"file://{bench.project.path}", str(shallow))
    driver = Driver(Repository(shallow), RunStore(shallow / "results"), bench.heard)
    entry = driver.judge(["D1.1"], bench.target)
    assert entry.verdict == "ACCEPT", entry.reason
    with pytest.raises(CandidateError, match="git fetch --unshallow"):
        driver.judge(["D1.2"], Ssh("b200", "b200", "/nowhere"))


def test_unknown_run_is_refused_by_name(bench):
    entry = bench.stage()
    for run in ("nonsense", "../../etc", "20200101-000000-D1.1-abcdef"):
        with pytest.raises(RunStoreError, match=entry.run):
            bench.driver.resume(run, bench.target)


def test_interpreter_of_the_target_is_the_one_named(bench):
    entry = bench.stage(target=Local("sim", bench.target.workdir, python=sys.executable, disk_mb=8))
    assert entry.verdict == "ACCEPT"
    assert sys.executable in entry.job.steps[0].argv


MEASURES = """
import argparse, json, pathlib
parser = argparse.ArgumentParser()
parser.add_argument("milestone", nargs="?")
parser.add_argument("--out", type=pathlib.Path)
options = parser.parse_args()
options.out.mkdir(parents=True, exist_ok=True)
times = dict(median=1.25e-5, low=1.2e-5, high=1.4e-5, rounds=50, cold=True, sm_mhz=1965, memory_mhz=3996, watts=700)
found = [dict(case="n=128", what="this kernel", times=times), dict(case="n=128", what="x", times=None, error="no <b>")]
(options.out / "measured.json").write_text(json.dumps(found))
"""


@pytest.mark.parametrize("milestones", [["D1.2"], []], ids=["a milestone", "all problems"])
def test_times_of_a_target_come_back_and_accept_nothing(bench, milestones):
    """The phases of a GPU are faked. The measured times are fetched like other results."""
    for name, text in (
        ("measure", MEASURES),
        ("canary", ""),
        ("fingerprint", "print('{}')"),
    ):
        bench.project.write(f"harness/judge/{name}.py", text)
    bench.project.git("commit", "--quiet", "--all", "--message", "A GPU")
    entry = bench.driver.time(milestones, bench.target)
    assert (entry.verdict, entry.closed, entry.judges) == ("ACCEPT", True, False), entry.reason
    assert bench.repository.resolve(ACCEPTED) is None and vouched.notes(bench.repository, entry.candidate.commit) == []
    assert list(in_words(bench.driver.store.folder(entry.run))) == [
        "n=128",
        "  this kernel                            12.5 us (12.0 to 14.0, 50 launches, L2 cold, 1965 MHz)",
        "  x                                      no <b>",
    ]


SWEEPS = """
import pathlib, sys
out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
out.mkdir(parents=True, exist_ok=True)
(out / "sweep.json").write_text(pathlib.Path("stages/d1_4.py").read_text())
"""


def test_a_sweep_takes_stages_as_they_stand_and_names_what_it_leaves_out(bench):
    """A new milestone has no commit yet when its pins are measured."""
    bench.project.write("harness/judge/sweep.py", SWEEPS)
    bench.project.write("harness/judge/fingerprint.py", "print('{}')\n")
    bench.project.write("stages/d1_4.py", "[]")
    bench.project.write("scratch.txt", "mine\n")
    entry = bench.driver.sweep("D1.4", lambda tree: [1], bench.target)
    assert entry is not None and entry.verdict == "ACCEPT", entry
    (measured_by_the_part,) = bench.driver.store.folder(entry.run).glob("*/sweep.json")
    assert measured_by_the_part.read_text() == "[]"
    assert "not in the run, because it is not committed: scratch.txt" in bench.heard.said
    assert "?? stages/d1_4.py" in bench.project.git("status", "--porcelain")


@pytest.mark.long
def test_a_sweep_of_a_branch_behind_accepted_is_not_stale(bench):
    bench.project.kernel(cosine=1.0)
    assert bench.stage().verdict == "ACCEPT"
    bench.project.git("switch", "--quiet", "--create", "behind", "HEAD^")
    bench.project.write("harness/judge/sweep.py", SWEEPS)
    bench.project.write("stages/d1_4.py", "[]")
    entry = bench.driver.sweep("D1.4", lambda tree: [1], bench.target)
    assert (entry.verdict, entry.closed) == ("ACCEPT", True), entry.reason
