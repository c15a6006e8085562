"""Whole runs through a real OpenSSH server, from candidate to acceptance, also when anything on the way breaks."""

import os
import secrets
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import replace

import psutil
import pytest

from harness.client import sharing, vouched
from harness.client.doctor import examine
from harness.client.driver import Driver
from harness.client.host import PROBE, Host
from harness.client.plan import Planner, TimeLimits
from harness.host import lock
from harness.host.job import Step
from harness.host.journal import read_events
from harness.host.repository import ACCEPTED, NOTES, Repository
from harness.report.record import load
from remote import ssh_link
from remote.errors import ChangedHostKey, UnknownHostKey
from remote.loopback import reserved_port
from remote.program import send
from remote.ssh import Ssh
from tests.remote.conftest import Server
from tests.remote.person import Person

pytestmark = pytest.mark.sshd


class Laptop(Person):
    """One user's clone, and a driver for the host."""

    def __init__(self, project, sshd):
        self.sshd = sshd
        workdir = sshd.folder / "Ada's $HOME, é"
        target = Ssh("b200", "b200", str(workdir), sshd.account.python, device="emulator", disk_mb=8)
        super().__init__(project, workdir, target)

    def run_folder(self):
        return next((self.place.root / "runs").iterdir())


@pytest.fixture
def laptop(project, sshd):
    return Laptop(project, sshd)


def ended(laptop, entry):
    """Wait until the supervisor of a run has ended."""
    deadline = time.monotonic() + 600
    while lock.is_held(laptop.place.run(entry.run).alive):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_accept_and_reject(laptop, account):
    laptop.project.kernel(cosine=1.0)
    entry = laptop.stage("D1.2")
    assert (entry.verdict, entry.reason) == ("ACCEPT", "")
    bare = Repository(laptop.place.repository, plain=True)
    shared = subprocess.run(
        ["git", "-c", "safe.directory=*", "-C", str(bare.path), "rev-parse", ACCEPTED], capture_output=True, text=True
    ).stdout.strip()
    assert shared == entry.candidate.commit == laptop.project.git("rev-parse", "accepted")
    assert load(laptop.driver.store.folder(entry.run)).verdict == "ACCEPT"
    if os.getuid() == 0:
        assert laptop.run_folder().stat().st_uid == account.uid != 0
    laptop.project.kernel(cosine=0.4)
    before = laptop.project.state()
    entry = laptop.stage("D1.2")
    assert entry.verdict == "REJECT_GATE"
    assert laptop.project.state() == before
    assert vouched.notes(laptop.repository, entry.candidate.commit)[0]["verdict"] == "REJECT_GATE"


@pytest.mark.long
def test_two_users_on_one_host(laptop, sshd, other_clone):
    """One runs; the other waits and sees who has the GPU. The later one is merged, tested again and accepted."""
    other = Laptop(other_clone, sshd)
    laptop.project.kernel(cosine=1.0, sleep=2)
    other.project.write("kernel/bobs.py", "BOB = 1\n")
    first, results = laptop.in_background()
    laptop.wait_for("gate")
    second, others = other.in_background()
    other.wait_for("waiting in the queue")
    first.join()
    second.join()
    assert results[0].verdict == others[0].verdict == "ACCEPT"
    assert any("merged with it" in text for text in other.said)
    merged = others[0].candidate.commit
    assert other.project.git("show", f"{merged}:kernel/bobs.py") == "BOB = 1"
    assert "sleep = 2" in other.project.git("show", f"{merged}:kernel/fmha.py")
    assert other.repository.is_ancestor(results[0].candidate.commit, merged)
    shared = sharing.theirs(laptop.repository, Host(laptop.target, laptop.target.connect()))
    assert shared == merged
    laptop.repository.git("update-ref", "-d", NOTES)
    for commit in (merged, results[0].candidate.commit):
        assert vouched.is_vouched(laptop.repository, commit), "notes of one user's clones do not overwrite each other"


@pytest.mark.long
def test_what_others_got_accepted_is_fetched_first(laptop, sshd, other_clone):
    other = Laptop(other_clone, sshd)
    laptop.project.kernel(cosine=1.0)
    first = laptop.stage()
    other.project.write("kernel/bobs.py", "BOB = 1\n")
    second = other.stage()
    assert (first.verdict, second.verdict) == ("ACCEPT", "ACCEPT")
    assert other.repository.is_ancestor(first.candidate.commit, second.candidate.commit)


def test_changed_host_key_stops_before_any_code_is_sent(laptop, sshd):
    sshd.stop()
    sshd.new_host_key()
    sshd.start()
    with pytest.raises(ChangedHostKey):
        laptop.stage()
    assert not laptop.place.root.exists()
    assert next(laptop.driver.store.newest_first()).verdict == "INFRA"


def test_killed_sshd_mid_run_then_resume(laptop, sshd, monkeypatch):
    monkeypatch.setattr("harness.client.driver.RETRY_AFTER_S", (0.1, 0.1))
    laptop.project.kernel(cosine=1.0, sleep=2)
    before = laptop.project.state()
    thread, results = laptop.in_background()
    laptop.wait_for("gate")
    sshd.kill()
    thread.join()
    entry = results[0]
    assert (entry.verdict, entry.closed) == ("UNKNOWN", False)
    assert laptop.project.state() == before and laptop.repository.resolve(ACCEPTED) is None
    ended(laptop, entry)
    assert not lock.is_held(laptop.place.locks / "gpu0.lock")
    sshd.start()
    assert laptop.driver.resume(entry.run, laptop.target).verdict == "ACCEPT"


@pytest.mark.long
def test_short_cut_is_retried(laptop, sshd):
    laptop.project.kernel(cosine=1.0, sleep=2)
    thread, results = laptop.in_background()
    laptop.wait_for("gate")
    for session in sshd.sessions():
        session.kill()
    thread.join()
    assert results[0].verdict == "ACCEPT"
    assert any("trying again" in text for text in laptop.said)


@pytest.mark.long
def test_frozen_sshd_is_noticed_and_the_run_resumed(laptop, sshd, monkeypatch):
    monkeypatch.setattr("remote.link.SILENCE_S", 2.0)
    monkeypatch.setattr("harness.client.driver.RETRY_AFTER_S", ())
    laptop.project.kernel(cosine=1.0, sleep=2)
    thread, results = laptop.in_background()
    laptop.wait_for("gate")
    sshd.signal_all(signal.SIGSTOP)
    thread.join(15)
    assert not thread.is_alive(), "a frozen peer held the client"
    assert results[0].verdict == "UNKNOWN" and "no output for" in results[0].reason
    sshd.signal_all(signal.SIGCONT)
    assert laptop.driver.resume(results[0].run, laptop.target).verdict == "ACCEPT"


@pytest.mark.long
def test_killed_client_mid_run_then_resume(laptop, sshd):
    """The client's process is killed, and the run goes on to its verdict."""
    laptop.project.kernel(cosine=1.0, sleep=2)
    before = laptop.project.state()
    known = f"from remote import ssh_link; ssh_link.KNOWN_HOSTS = Path({str(ssh_link.KNOWN_HOSTS)!r})"
    laptop.stage_until_killed(known)
    entry = next(laptop.driver.store.newest_first())
    assert entry.sent and not entry.closed
    assert laptop.project.state() == before
    ended(laptop, entry)
    assert not lock.is_held(laptop.place.locks / "gpu0.lock")
    assert laptop.driver.resume(entry.run, laptop.target).verdict == "ACCEPT"


def test_tampered_checkout_on_the_host(laptop):
    """An edit on the host during the run is detected, even if hidden by assume-unchanged, and so are ignored files."""
    for path in ("kernel/fmha.py", "stages/ignored.log"):
        laptop.project.kernel(cosine=1.0, sleep_D1_1=1.5, note=path)
        thread, results = laptop.in_background("D1.2")
        laptop.wait_for("gate")
        tree = max((laptop.place.root / "runs").iterdir()) / "tree"
        git = ["git", "-c", "safe.directory=*", "-C", str(tree)]
        if path == "kernel/fmha.py":
            subprocess.run([*git, "update-index", "--assume-unchanged", path], check=True)
        (tree / path).write_text("cosine = 1.0\n")
        status = subprocess.run([*git, "status", "--porcelain"], capture_output=True, text=True, check=True)
        assert status.stdout == "", "git itself sees nothing"
        thread.join()
        assert results[0].verdict == "TAMPERED" and path in results[0].reason, results[0].reason
        laptop.said.clear()
        laptop.doings.clear()


@pytest.mark.long
def test_edited_results_on_the_host(laptop, monkeypatch):
    settle = Driver._conclude

    def spoil(gate, entry, host, ruling, job=None):
        path = laptop.place.run(entry.run).out / "record.json"
        path.write_bytes(path.read_bytes().replace(b"0.01", b"0.02"))
        return settle(gate, entry, host, ruling, job)

    monkeypatch.setattr(Driver, "_conclude", spoil)
    laptop.project.kernel(cosine=1.0)
    entry = laptop.stage()
    assert entry.verdict == "TAMPERED" and laptop.repository.resolve(ACCEPTED) is None


@pytest.mark.long
@pytest.mark.parametrize(
    ("settings", "limits", "verdict"),
    [
        ({"compile_hang": True}, TimeLimits(compile_s=1.0), "COMPILE_HANG"),
        ({"hang": "gil"}, TimeLimits(gate_s=2.0), "GPU_HANG"),
    ],
)
def test_hung_compiler_and_kernel(laptop, account, settings, limits, verdict):
    laptop.driver.limits = limits
    laptop.project.kernel(cosine=1.0, **settings)
    entry = laptop.stage()
    assert entry.verdict == verdict
    ended(laptop, entry)
    deadline = time.monotonic() + 600
    while left := [p for p in psutil.process_iter(["cmdline"]) if entry.run in " ".join(p.info["cmdline"] or [])]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


@pytest.mark.long
def test_full_disk_on_the_host(laptop, account):
    if os.getuid() != 0:
        pytest.skip("mounting a small tmpfs needs root")
    laptop.place.root.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size=24m,uid={account.uid}", "tmpfs", laptop.place.root], check=True
    )
    try:
        laptop.project.kernel(cosine=1.0, fill="large files")
        entry = laptop.stage()
        assert entry.verdict == "REJECT_GATE" and "filled the disk" in entry.reason
        laptop.project.kernel(cosine=1.0)
        filler = laptop.place.root / "filler"
        filler.write_bytes(b"x" * (shutil.disk_usage(laptop.place.root).free - (2 << 20)))
        entry = laptop.stage()
        assert entry.verdict == "INFRA" and "MiB free" in entry.reason and "make clean-runs" in entry.reason
        laptop.target = replace(laptop.target, disk_mb=0)
        filler.write_bytes(b"x" * (filler.stat().st_size + shutil.disk_usage(laptop.place.root).free - 4096))
        laptop.project.write("kernel/table.py", "".join(f"{secrets.token_hex(40)!r}\n" for _ in range(1000)))
        entry = laptop.stage()
        assert entry.verdict == "INFRA" and "the disk" in entry.reason and "is full" in entry.reason, entry.reason
    finally:
        subprocess.run(["umount", "--lazy", laptop.place.root], check=True)


@pytest.mark.long
def test_supervisor_killed_on_the_host(laptop):
    laptop.project.kernel(cosine=1.0, sleep=20)
    thread, results = laptop.in_background()
    laptop.wait_for("gate")
    os.kill(int(next(read_events(laptop.run_folder() / "journal.jsonl"))[0]["pid"]), signal.SIGKILL)
    thread.join()
    assert results[0].verdict == "INFRA" and "died without a verdict" in results[0].reason
    assert not lock.is_held(laptop.place.locks / "gpu0.lock")
    laptop.project.kernel(cosine=1.0)
    assert laptop.stage().verdict == "ACCEPT"


@pytest.mark.long
def test_frozen_supervisor_reads_infra(laptop, monkeypatch):
    monkeypatch.setattr("harness.client.watch.STALE_S", 2.0)
    laptop.project.kernel(cosine=1.0, sleep=2)
    thread, results = laptop.in_background()
    laptop.wait_for("gate")
    pid = int(next(read_events(laptop.run_folder() / "journal.jsonl"))[0]["pid"])
    os.kill(pid, signal.SIGSTOP)
    thread.join()
    assert results[0].verdict == "INFRA" and "sent no heartbeat" in results[0].reason and not results[0].closed
    os.kill(pid, signal.SIGCONT)
    assert laptop.driver.resume(results[0].run, laptop.target).verdict == "ACCEPT"


@pytest.mark.long
def test_synchronisation_through_a_remote_that_both_reach(laptop, account, sshd):
    origin = account.folder / "origin.git"
    subprocess.run(["git", "init", "--quiet", "--bare", origin], check=True)
    account.own(origin, *origin.rglob("*"))
    reserved, port = reserved_port()
    core = subprocess.run(["git", "--exec-path"], capture_output=True, text=True, check=True).stdout.strip()
    serve = [f"{core}/git-daemon", "--export-all", "--enable=receive-pack", f"--base-path={account.folder}"]
    user = {"user": account.uid, "extra_groups": []} if os.getuid() == 0 else {}
    daemon = subprocess.Popen([*serve, "--listen=127.0.0.1", f"--port={port}", "--reuseaddr"], **user)
    try:
        laptop.project.git("remote", "add", "origin", f"git://127.0.0.1:{port}/origin.git")
        laptop.target = replace(laptop.target, sync="origin")
        laptop.project.kernel(cosine=1.0)
        entry = laptop.stage()
        assert entry.verdict == "ACCEPT", entry.reason
        listed = laptop.project.git("ls-remote", "origin", ACCEPTED, entry.candidate.ref)
        assert [row.split()[0] for row in listed.splitlines()] == [entry.candidate.commit] * 2
    finally:
        daemon.kill()
        daemon.wait()
        reserved.close()
        shutil.rmtree(origin)


@pytest.mark.long
def test_frozen_host_is_left_and_the_run_resumed(laptop, sshd, monkeypatch):
    """Server, supervisor and phase are all stopped, as on a suspended machine."""
    monkeypatch.setattr("remote.link.SILENCE_S", 2.0)
    monkeypatch.setattr("harness.client.driver.RETRY_AFTER_S", ())
    laptop.project.kernel(cosine=1.0, sleep=2)
    thread, results = laptop.in_background()
    laptop.wait_for("gate")
    supervisor = psutil.Process(int(next(read_events(laptop.run_folder() / "journal.jsonl"))[0]["pid"]))
    sshd.signal_all(signal.SIGSTOP)
    supervisor.suspend()
    frozen = [supervisor]
    for each in supervisor.children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # it ended since it was listed
            each.suspend()
            frozen.append(each)
    thread.join(30)
    assert not thread.is_alive() and results[0].verdict == "UNKNOWN" and not results[0].closed
    for each in frozen:
        each.resume()
    sshd.signal_all(signal.SIGCONT)
    assert laptop.driver.resume(results[0].run, laptop.target).verdict == "ACCEPT"


@pytest.mark.long
def test_run_through_a_gateway(laptop, account, tmp_path):
    """The host can only be reached through another server, and both must have pinned keys."""
    folder = account.folder / secrets.token_hex(4)
    folder.mkdir()
    jump = Server(account, folder)
    config = tmp_path / "laptop/.ssh/config"
    config.write_text(f"{jump.client_config('jump', account.name)}{config.read_text()}  ProxyJump jump\n")
    host = ssh_link.KNOWN_HOSTS.read_text()
    ssh_link.KNOWN_HOSTS.write_text(host + jump.known_host())
    jump.start()
    try:
        laptop.project.kernel(cosine=1.0)
        entry = laptop.stage()
        assert entry.verdict == "ACCEPT", entry.reason
        jump.stop()
        jump.new_host_key()
        jump.start()
        laptop.project.kernel(cosine=0.999999)
        with pytest.raises(ChangedHostKey, match="another host key"):
            laptop.stage()
        ssh_link.KNOWN_HOSTS.write_text(host)
        with pytest.raises(UnknownHostKey):
            laptop.stage()
    finally:
        jump.close()


@pytest.mark.long
def test_broken_device_of_a_host_is_refused_until_a_person_clears_it(laptop, monkeypatch):
    """If the canary fails after a hang, the device is marked broken for everybody, and doctor names the fix."""
    flag = laptop.sshd.folder / "sick"
    canary = Step("canary", ["sh", "-c", f"echo sum 1, expected 2; test ! -e '{flag}'"], 20.0)
    planned = Planner.judging
    monkeypatch.setattr(Planner, "judging", lambda *asked: replace(planned(*asked), canary=canary))
    laptop.driver.limits = TimeLimits(gate_s=2.0)
    laptop.project.kernel(cosine=1.0, hang="sleep")
    thread, results = laptop.in_background()
    laptop.wait_for("gate")
    flag.touch()
    thread.join()
    assert results[0].verdict == "GPU_HANG"
    flag.unlink()
    laptop.driver.limits = TimeLimits()
    laptop.project.kernel(cosine=1.0)
    entry = laptop.stage()
    assert entry.verdict == "INFRA" and "marked broken" in entry.reason and "sum 1, expected 2" in entry.reason
    (device,) = [each for each in examine(laptop.target, Repository(laptop.project.path)) if each.need == "device"]
    assert not device.holds and device.fix.endswith("doctor --target b200 --clear-broken")
    link = laptop.target.connect()
    send(laptop.target, link, PROBE, "clear", {"workdir": laptop.target.workdir, "lock": "gpu0"})
    link.close()
    laptop.project.kernel(cosine=0.999999)
    assert laptop.stage().verdict == "ACCEPT"
