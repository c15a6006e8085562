"""The SSH target with a real OpenSSH server: host keys, login, streams, git, and every kind of broken link."""

import signal
import subprocess
import threading

import pytest

from harness.host.repository import Repository
from remote import ssh_link, trust
from remote.errors import ChangedHostKey, LinkLost, NotAdmitted, UnknownHostKey, Unreachable, Untrusted
from remote.link import git_service, run
from remote.ssh import Ssh

pytestmark = pytest.mark.sshd


@pytest.fixture
def target(sshd):
    return Ssh("b200", "b200", str(sshd.folder / "work"))


def test_command_runs_as_the_hosts_user_with_every_word_quoted(target, account):
    link = target.connect()
    words = ["a b", "$HOME", "`id`", "x'y", '"', "*", "\\", ";"]
    assert run(link, ["printf", "%s|", *words]).out.decode() == "".join(f"{word}|" for word in words)
    assert run(link, ["id", "-un"]).out.decode().strip() == account.name
    assert run(link, ["cat"], stdin=b"\0\xff" * 300_000).out == b"\0\xff" * 300_000
    assert run(link, ["pwd"], cwd="/usr").out == b"/usr\n"
    reply = run(link, ["sh", "-c", "echo oops >&2; exit 7"])
    assert (reply.code, reply.errors) == (7, "oops\n")
    link.close()


def test_unknown_host_key_is_refused_before_anything_is_sent(target, sshd):
    ssh_link.KNOWN_HOSTS.unlink()
    with pytest.raises(UnknownHostKey, match="make trust TARGET=b200"):
        target.connect()
    ssh_link.KNOWN_HOSTS.write_text("")
    with pytest.raises(UnknownHostKey):
        target.connect()


def test_changed_host_key_is_refused(target, sshd):
    target.connect().close()
    sshd.stop()
    sshd.new_host_key()
    sshd.start()
    with pytest.raises(ChangedHostKey, match="another host key than the pinned one"):
        target.connect()


def test_trust_shows_the_fingerprint_and_pins(target, sshd):
    ssh_link.KNOWN_HOSTS.unlink()
    found = trust.offered("b200")
    shown = subprocess.run(["ssh-keygen", "-lf", sshd.folder / "host_key.pub"], capture_output=True, text=True)
    assert found.fingerprint == shown.stdout.split()[1]
    assert (found.pinned, found.changed) == (False, False)
    trust.pin(found)
    target.connect().close()
    assert trust.offered("b200").pinned
    sshd.stop()
    sshd.new_host_key()
    sshd.start()
    changed = trust.offered("b200")
    assert (changed.pinned, changed.changed) == (False, True)
    trust.pin(changed)
    target.connect().close()
    assert len(ssh_link.KNOWN_HOSTS.read_text().splitlines()) == 1


def test_gateway_has_to_be_pinned_as_well(sshd, tmp_path):
    """A gateway's key is checked too. By default Fabric accepts any."""
    config = tmp_path / "laptop/.ssh/config"
    gateway = config.read_text().replace("Host b200", "Host jump")
    inner = config.read_text().replace("Host b200", "Host inner").replace("127.0.0.1", "localhost")
    config.write_text(gateway + inner + "  ProxyJump jump\n")
    target = Ssh("inner", "inner", "/tmp")
    pinned = ssh_link.KNOWN_HOSTS.read_text()
    ssh_link.KNOWN_HOSTS.write_text(pinned.replace("127.0.0.1", "localhost"))
    with pytest.raises(UnknownHostKey):
        target.connect()
    assert trust.offered("inner").name == f"[127.0.0.1]:{sshd.port}"
    ssh_link.KNOWN_HOSTS.write_text(pinned)
    found = trust.offered("inner")
    assert (found.name, found.pinned) == (f"[localhost]:{sshd.port}", False)
    trust.pin(found)
    link = target.connect()
    assert run(link, ["echo", "through"]).out == b"through\n"
    link.close()


def test_key_that_is_not_admitted(target, sshd):
    (sshd.folder / "authorized_keys").write_text("")
    with pytest.raises(NotAdmitted, match="try: ssh b200"):
        target.connect()


def test_key_with_a_passphrase_is_for_the_agent(target, sshd):
    key = str(sshd.folder / "user_key")
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", key], check=True)
    with pytest.raises(NotAdmitted, match="ssh-add"):
        target.connect()


def test_nobody_there(target, sshd):
    sshd.stop()
    with pytest.raises(Unreachable, match=rf"127\.0\.0\.1, port {sshd.port}: .*refused; try: ssh b200"):
        target.connect()
    with pytest.raises(Unreachable, match=rf"127\.0\.0\.1\]:{sshd.port}: .*refused"):
        trust.offered("b200")


def test_git_pushes_and_fetches_over_the_open_link(target, sshd, project):
    link = target.connect()
    bare = str(sshd.folder / "repo.git")
    assert run(link, ["git", "init", "--quiet", "--bare", bare]).code == 0
    repository = Repository(project.path)
    with git_service(link, "receive-pack", bare) as (url, fds):
        repository.git("push", "--quiet", url, "HEAD:refs/heads/accepted", pass_fds=fds)
    with git_service(link, "upload-pack", bare) as (url, fds):
        repository.git("fetch", "--quiet", url, "+refs/heads/accepted:refs/fmha/accepted", pass_fds=fds)
    assert repository.resolve("refs/fmha/accepted") == project.git("rev-parse", "HEAD")
    link.close()


def test_command_that_ended_before_it_was_told_anything_says_why(target):
    link = target.connect()
    stream = link.open(["/nowhere/python", "-"])
    assert stream.read(20.0) == b""
    stream.send(b"print()\n")
    stream.end_input()
    assert stream.exit_code() == 127
    link.close()


def test_killed_server_is_a_lost_link_not_a_failed_command(target, sshd):
    link = target.connect()
    stream = link.open(["sleep", "30"])
    sshd.kill()
    with pytest.raises(LinkLost):
        while stream.read(5.0):
            pass
        stream.exit_code()
    with pytest.raises(LinkLost):
        link.open(["true"])


def test_frozen_server_is_noticed_by_silence(target, sshd, monkeypatch):
    monkeypatch.setattr(ssh_link, "CONNECT_S", 2.0)
    link = target.connect()
    stream = link.open(["sh", "-c", "echo on; sleep 30"])
    assert stream.read(600.0) == b"on\n"
    sshd.signal_all(signal.SIGSTOP)
    with pytest.raises(TimeoutError):
        stream.read(1.0)
    with pytest.raises(LinkLost):
        run(link, ["true"], timeout_s=1.0)
    sshd.signal_all(signal.SIGCONT)


def test_push_over_a_killed_server_is_a_lost_link(target, sshd, project):
    link = target.connect()
    bare = str(sshd.folder / "repo.git")
    run(link, ["git", "init", "--quiet", "--bare", bare])
    (project.path / "kernel/blob.bin").write_bytes(b"".join(i.to_bytes(4, "big") for i in range(1 << 20)))
    project.git("add", ".")
    project.git("commit", "--quiet", "-m", "big")
    threading.Timer(0.05, sshd.kill).start()
    with pytest.raises(LinkLost), git_service(link, "receive-pack", bare) as (url, fds):
        for _ in range(50):
            Repository(project.path).git("push", "--quiet", url, "HEAD:refs/heads/x", pass_fds=fds)


def test_answer_without_end_is_bounded(target):
    link = target.connect()
    with pytest.raises(Untrusted, match="more than"):
        run(link, ["yes"], most=1 << 20)
    link.close()
