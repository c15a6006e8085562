"""The commands as a user types them, each in its own process: exit codes, and messages that say how to fix errors."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from harness.host.verdict import EXIT_BAD_INPUT, Verdict
from tests.conftest import tolerances
from tests.tiers import shortened

COMMAND = [sys.executable, "-m", "harness"]


def harness(project, *arguments, **env):
    done = subprocess.run(
        [*COMMAND, *arguments], cwd=project.path, capture_output=True, text=True, env=os.environ | env, timeout=600
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def refused(project, words, *arguments, **env):
    """Check that a command exits with 2, prints `words` in one line, and changes nothing."""
    before = project.state()
    done = harness(project, *arguments, **env)
    assert (done.returncode, done.stdout) == (EXIT_BAD_INPUT, ""), done
    assert words in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    assert project.state() == before


@pytest.fixture
def project(project):
    project.write("remote/targets.toml", 'default = "sim"\n[targets.sim]\nkind = "emulator"\ndisk_mb = 8\n')
    return project


def test_accept_then_nothing_to_commit_then_reject(project):
    project.kernel(cosine=1.0)
    done = harness(project, "stage", "d1.2")
    assert done.returncode == 0, done
    assert "accepted is" in done.stdout and "D1.2 ACCEPT" in done.stdout
    assert "\x1b" not in done.stdout, "no colours in a pipe"
    refused(project, "nothing to commit", "stage", "D1.2")
    project.kernel(cosine=0.5)
    done = harness(project, "gate")
    assert done.returncode == Verdict.REJECT_GATE.exit_code
    assert "cosine 0.5" in done.stdout and "the change" in done.stdout
    (page,) = re.findall(r"^/.*", done.stdout, re.M)
    assert Path(page).name == "page.html" and "cosine 0.5" in Path(page).read_text()
    refused(project, "has ended already: REJECT_GATE", "cancel", Path(page).parent.name)
    listed = harness(project, "runs").stdout
    assert re.findall("ACCEPT|REJECT_GATE", listed) == ["REJECT_GATE", "ACCEPT"], listed
    after, before = re.findall(r"^20\S+", listed, re.M)
    differs = harness(project, "diff", before, after).stdout
    assert re.search(r"verdict +ACCEPT +REJECT", differs) and "1 file differs: git diff" in differs, differs
    assert "REJECT_GATE" in Path(differs.splitlines()[-1]).read_text()
    refused(project, "is not known here", "diff", before, "20261122-010101-D1.1-abcdef")
    everybody = harness(project, "runs", "--target", "sim").stdout
    assert "REJECT_GATE" in everybody and "ACCEPT" in everybody


@pytest.mark.long
def test_a_run_that_was_cancelled_before_it_began_did_not_die(project):
    """A scheduler may end a pending run before its supervisor can write a verdict."""
    assert harness(project, "gate").returncode == 0
    (run,) = (project.path / "results/.sim/runs").iterdir()
    (run / "verdict.json").unlink()
    assert " died " in harness(project, "runs", "--target", "sim").stdout
    (run / "cancel").write_text("ada")
    assert " CANCELLED " in harness(project, "runs", "--target", "sim").stdout


@pytest.mark.long
def test_a_run_that_was_left_and_has_ended_is_not_asked_to_end(project):
    """Its verdict was not seen yet. Then somebody cleans the target."""
    assert harness(project, "gate").returncode == 0
    (run,) = (project.path / "results/.sim/runs").iterdir()
    entry = project.path / "results" / run.name / "run.json"
    entry.write_text(entry.read_text().replace('"closed": true', '"closed": false'))
    refused(project, f"has ended already; for its verdict: make resume RUN={run.name}", "cancel", run.name)
    assert not (run / "cancel").exists()
    shutil.rmtree(run)
    gone = f"sim has no run {run.name}: it was not started there, or clean-runs removed it"
    refused(project, gone, "cancel", run.name)
    resumed = harness(project, "resume", run.name)
    assert resumed.returncode == Verdict.INFRA.exit_code and gone in resumed.stdout.replace("\n", " "), resumed


@pytest.mark.long  # test_driver.py has a ratchet in its process
def test_ratchet_reruns_what_was_accepted(project):
    refused(project, "make stage D1.1 comes first", "ratchet")
    assert harness(project, "stage", "D1.1").returncode == 0
    assert harness(project, "stage", "D1.3").returncode == 0
    done = harness(project, "ratchet")
    assert done.returncode == 0 and "rerunning D1.1, D1.3" in done.stdout
    assert re.search(r"D1.1 .* ACCEPT *\n D1.3 .* ACCEPT *\n", done.stdout), done.stdout
    report = Path(done.stdout.splitlines()[-1])
    assert report.name == "page.html" and report.read_text().count('class="verdict ACCEPT"') == 3
    project.kernel(cosine=1.0, cosine_D1_3=0.1)
    assert harness(project, "ratchet").returncode == Verdict.REJECT_STAGE.exit_code


def test_bad_input(project):
    refused(project, "there are sim", "stage", "D1.1", "--target", "b300")
    refused(project, "D5d", "stage", "D99")
    refused(project, "D4", "stage", "D4")
    refused(project, 'UNPIN="stages" BECAUSE="why"', "stage", "D1.1", "--unpin", "stages")
    refused(project, 'UNPIN="PATH" BECAUSE="why"', "stage", "D1.1", "--because", "measured")
    refused(project, "not known here", "resume", "20260101-000000-D1.1-abcdef")
    refused(project, "not known here", "cancel", "../../x")
    refused(project, "git is not installed", "stage", "D1.1", PATH="/nonexistent")
    refused(project, "this machine", "trust")
    refused(project, "make setup", "provision")


@pytest.mark.long
def test_pinned_path(project):
    project.write("stages/tolerances.toml", tolerances("as measured"))
    fix = 'UNPIN="stages/tolerances.toml" BECAUSE="why" (without make: --unpin stages/tolerances.toml --because "why")'
    refused(project, "pinned, but different", "stage", "D1.1")
    refused(project, fix, "stage", "D1.1")
    assert harness(project, "stage", "D1.1", "--unpin", "stages", "--because", "measured").returncode == 0


@pytest.mark.parametrize(
    ("text", "words"),
    shortened(
        2,
        [
            (
                "default = 'sim'\n[targets.sim]\nkind = 'emulator'\nports = 22\n",
                "key 'ports', allowed are kind, workdir",
            ),
            ("default = 'sim'\n[targets.sim]\nkind = 'emulator'\ndisk_mb = 'much'\n", "must be int"),
            ("default = 'sim'\n[targets.sim]\nkind = 'cloud'\n", "there are emulator, ssh"),
            ("default = 'sim'\n[targets.sim]\nkind = 'ssh'\nhost = 'x'\n", "lacks 'workdir'"),
            ("default = 'sim'\n[targets.'a/b']\nkind = 'emulator'\n", "a name may have letters"),
            ("default = 'other'\n[targets.sim]\nkind = 'emulator'\n", "there are sim"),
            ("[targets.sim]\nkind = 'emulator'\n", "default ="),
            ("default = \n", "targets.toml"),
        ],
    ),
)
def test_targets_file_with_a_mistake(project, text, words):
    project.write("remote/targets.toml", text)
    refused(project, words, "stage", "D1.1")


def test_no_room(project):
    project.write("remote/targets.toml", 'default = "sim"\n[targets.sim]\nkind = "emulator"\ndisk_mb = 999999999\n')
    done = harness(project, "stage", "D1.1")
    assert done.returncode == Verdict.INFRA.exit_code and "MiB free" in done.stdout and "clean-runs" in done.stdout
    assert "INFRA" in harness(project, "runs").stdout


def test_states_of_the_repository(project, tmp_path):
    project.git("switch", "--quiet", "--detach")
    refused(project, "HEAD is detached", "stage", "D1.1")
    bare = tmp_path / "no-repository"
    shutil.copytree(project.path, bare, ignore=shutil.ignore_patterns(".git"))
    done = subprocess.run([*COMMAND, "stage", "D1.1"], cwd=bare, capture_output=True, text=True)
    assert done.returncode == EXIT_BAD_INPUT and "not a git working tree" in done.stderr


def test_doctor_of_the_embedded_target(project):
    done = harness(project, "doctor")
    assert done.returncode == 0, done.stdout
    needs = [line.split()[1] for line in done.stdout.splitlines()]
    assert {"git", "connection", "python", "packages", "disk", "lock"} <= set(needs)
    project.write("requirements.lock", "no-such-package==1.0\n")
    done = harness(project, "doctor")
    assert done.returncode == Verdict.INFRA.exit_code
    assert "no-such-package is missing" in done.stdout and "make setup" in done.stdout


@pytest.mark.long
def test_broken_device_is_refused_until_cleared(project):
    project.kernel(cosine=1.0)
    assert harness(project, "gate").returncode == 0
    broken = project.path / "results/.sim/locks/gpu0.broken"
    broken.write_text("since yesterday, by run x of ada: sick\n")
    done = harness(project, "stage", "D1.2")
    assert done.returncode == Verdict.INFRA.exit_code and "marked broken" in done.stdout
    assert "FIX " in harness(project, "doctor").stdout
    assert harness(project, "doctor", "--clear-broken").returncode == 0
    assert harness(project, "stage", "D1.2").returncode == 0


def interrupted(project, sleep):
    """Start `gate` with a kernel that takes `sleep` seconds, and interrupt it. Return the client and the run id."""
    project.kernel(cosine=1.0, sleep=sleep)
    reacts = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # nohup and background jobs ignore it
    client = subprocess.Popen(
        [*COMMAND, "gate"], cwd=project.path, stdout=subprocess.PIPE, text=True, preexec_fn=reacts
    )
    assert client.stdout is not None
    next(line for line in client.stdout if line.startswith("fingerprint"))
    client.send_signal(signal.SIGINT)
    left = next(line for line in client.stdout if line.startswith("left"))
    (run,) = re.findall(r"make resume RUN=(\S+-[0-9a-f]{6})", left)
    return client, run


def test_interrupt_leaves_the_run_and_resume_fetches_it(project):
    client, run = interrupted(project, sleep=2)
    client.communicate(timeout=600)
    assert client.returncode == Verdict.UNKNOWN.exit_code
    assert json.loads((project.path / f"results/{run}/run.json").read_text())["verdict"] == "UNKNOWN"
    done = harness(project, "resume", run)
    assert done.returncode == 0 and "D1.1 ACCEPT" in done.stdout


@pytest.mark.long  # test_interrupt_leaves_the_run_and_a_second_one_ends_it of the driver
def test_second_interrupt_ends_the_run(project):
    client, run = interrupted(project, sleep=50)
    client.send_signal(signal.SIGINT)
    said = client.communicate(timeout=600)[0]
    assert "asked it to end" in said and "D1.1 CANCELLED" in said
    assert client.returncode == Verdict.CANCELLED.exit_code
    assert json.loads((project.path / f"results/{run}/run.json").read_text())["verdict"] == "CANCELLED"


@pytest.mark.long
def test_old_runs_go_with_their_candidates(project):
    """Folders and refs are removed here and on the target; the results of an accepted run stay."""
    project.kernel(cosine=1.0)
    assert harness(project, "gate").returncode == 0
    for cosine in (0.1, 0.2, 0.3):
        project.kernel(cosine=cosine)
        assert harness(project, "gate").returncode == Verdict.REJECT_GATE.exit_code
    project.write("stages/tolerances.toml", tolerances("as measured"))
    refused(project, "pinned, but different", "gate")
    places = [project.path / ".git", project.path / "results/.sim/repo.git"]

    def candidates(repository):
        listed = ["git", "--git-dir", repository, "for-each-ref", "--format=%(refname:lstrip=3)", "refs/candidates"]
        return subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split()

    runs = sorted(path.parent.name for path in project.path.glob("results/*/run.json"))
    assert [candidates(each) for each in places] == [runs, runs], "what was refused before it began left none"
    assert harness(project, "clean-runs", "--keep", "1").stdout == "sim: 2 runs removed\n"
    assert sorted(path.parent.name for path in project.path.glob("results/*/run.json")) == [runs[0], runs[3]]
    assert [path.name for path in project.path.glob("results/.sim/runs/*")] == [runs[3]]
    assert [candidates(each) for each in places] == [[runs[0], runs[3]], [runs[3]]]
    assert "REJECT_GATE" in harness(project, "runs").stdout


def test_results_that_cannot_be_written_are_named_and_leave_no_candidate(project):
    """The folder of results is a read-only file system."""
    if os.getuid() != 0:
        pytest.skip("mounting a tmpfs needs root")
    results = project.path / "results"
    results.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", results], check=True)
    try:
        project.kernel(cosine=1.0)
        done = harness(project, "gate")
    finally:
        subprocess.run(["umount", "--lazy", results], check=True)
    assert done.returncode == Verdict.INFRA.exit_code
    assert f"{results}/" in done.stderr and "is not writable (Read-only file system)" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert project.git("for-each-ref", "refs/candidates") == ""


def test_full_disk_here_is_said_in_words(project):
    """The folder of results is a small disk that fills up during a run."""
    if os.getuid() != 0:
        pytest.skip("mounting a small tmpfs needs root")
    small = project.path / "results"
    small.mkdir()
    place = project.path.parent / "work"
    project.write(
        "remote/targets.toml", f'default = "sim"\n[targets.sim]\nkind = "emulator"\nworkdir = "{place}"\ndisk_mb = 8\n'
    )
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", small], check=True)
    try:
        project.kernel(cosine=1.0, shout="x" * 200_000)
        done = harness(project, "gate")
    finally:
        subprocess.run(["umount", "--lazy", small], check=True)
    assert done.returncode == Verdict.INFRA.exit_code
    assert "the disk of this machine is full" in done.stderr and "free some space" in done.stderr
