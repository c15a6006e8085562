"""A server that aborts, is silent, or lies. Nothing that it sends moves `accepted` or is written outside its folder."""

import asyncio
import io
import json
import socket
import sys
import tarfile
import threading
from contextlib import suppress
from copy import copy

import asyncssh
import pytest

from harness.client.driver import Driver
from harness.client.run_store import RunStore
from harness.host.repository import ACCEPTED, Repository
from remote import link, ssh_link
from remote.errors import Unreachable
from remote.ssh import Ssh
from tests.tiers import shortened

THROUGH = ("git receive-pack", "git upload-pack", "log_follower follow")
ABORT = object()


class Liar:
    """Runs commands, and lets `spoil(command, output)` change their output or abort the connection."""

    def __init__(self, folder):
        self.loop = asyncio.new_event_loop()
        self.spoil = lambda command, output: output
        self.through = THROUGH
        key = asyncssh.generate_private_key("ssh-ed25519")
        user = asyncssh.generate_private_key("ssh-ed25519")
        user.write_private_key(str(folder / "user_key"))
        (folder / "user_key").chmod(0o600)
        user.write_public_key(str(folder / "authorized_keys"))
        self.host_key = key.export_public_key().decode().strip()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.server = self.on_loop(self.listen(key, str(folder / "authorized_keys")))
        self.port = self.server.sockets[0].getsockname()[1]

    def on_loop(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(20)

    async def listen(self, key, users):
        return await asyncssh.listen(
            "127.0.0.1",
            0,
            server_host_keys=[key],
            authorized_client_keys=users,
            process_factory=self.serve,
            encoding=None,
        )

    async def serve(self, process):
        pipe = asyncio.subprocess.PIPE
        child = await asyncio.create_subprocess_shell(process.command, stdin=pipe, stdout=pipe, stderr=pipe)
        if any(words in process.command for words in self.through):
            upwards = asyncio.create_task(pump(process.stdin, child.stdin))
            await asyncio.gather(pump(child.stdout, process.stdout), pump(child.stderr, process.stderr))
            process.exit(await child.wait())
            upwards.cancel()
            return
        output, errors = await child.communicate(await process.stdin.read())
        output = self.spoil(process.command, output)
        if output is ABORT:
            process.get_extra_info("connection").abort()
            return
        process.stdout.write(output)
        process.stderr.write(errors)
        process.exit(child.returncode)

    def stop(self):
        self.server.close()
        self.on_loop(self.loop.shutdown_default_executor())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


async def pump(source, sink):
    """Copy in both directions until one side ends."""
    with suppress(OSError, asyncssh.Error):
        while data := await source.read(1 << 16):
            sink.write(data)
            await sink.drain()
        sink.write_eof()


class Heard(list):
    def say(self, text):
        self.append(text)

    doing = say


@pytest.fixture(scope="module")
def patch():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("liar")


@pytest.fixture(scope="module")
def server(folder, patch):
    home = folder / "laptop"
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    server = Liar(folder)
    (home / ".ssh/config").write_text(
        f"Host b200\n  HostName 127.0.0.1\n  Port {server.port}\n"
        f"  IdentityFile {folder}/user_key\n  IdentitiesOnly yes\n"
    )
    patch.setenv("HOME", str(home))
    patch.delenv("SSH_AUTH_SOCK", raising=False)
    patch.setattr(ssh_link, "KNOWN_HOSTS", folder / "known_hosts")
    patch.setattr("harness.client.driver.RETRY_AFTER_S", (0.1,))
    ssh_link.KNOWN_HOSTS.write_text(f"[127.0.0.1]:{server.port} {server.host_key}\n")
    yield server
    server.stop()


@pytest.fixture
def liar(server):
    """Provide the server, which is honest at first."""
    server.spoil, server.through = (lambda command, output: output), THROUGH
    return server


class Client:
    """A clone, with the lying server as target. `accepted` may only exist after an honest ACCEPT."""

    def __init__(self, project, folder):
        self.project = project
        self.target = Ssh("b200", "b200", str(folder / "work"), sys.executable, device="emulator", disk_mb=8)
        self.heard = Heard()
        self.driver = Driver(Repository(project.path), RunStore(project.path / "results"), self.heard)

    def judged(self, judge):
        before = self.project.state()
        entry = judge()
        if entry.verdict != "ACCEPT":
            assert self.driver.repository.resolve(ACCEPTED) is None
            assert self.project.state() == before
        return entry

    def stage(self):
        return self.judged(lambda: self.driver.judge(["D1.1"], self.target))

    def resume(self, entry):
        """Resume the run from the state in `entry`."""
        self.driver.store.save(entry)
        return self.judged(lambda: self.driver.resume(entry.run, self.target))


@pytest.fixture
def client(liar, project, tmp_path):
    project.kernel(cosine=1.0)
    return Client(project, tmp_path)


@pytest.fixture(scope="module")
def left(server, new_project, folder):
    """Make a run that was accepted on the target, but whose verdict the client has not seen."""
    project = new_project(folder / "clone")
    project.kernel(cosine=1.0)
    client = Client(project, folder)
    server.spoil, server.through = on("log_follower ruling", lambda output: ABORT), THROUGH
    entry = client.stage()
    assert (entry.verdict, entry.sent) == ("UNKNOWN", True)
    return client, entry


def on(words, change):
    """Return a function that changes the output of commands that contain `words`."""
    return lambda command, output: change(output) if words in command else output


def verdict(**changes):
    return on("log_follower ruling", lambda output: json.dumps(json.loads(output) | changes).encode())


def subject(**changes):
    def changed(output):
        read = json.loads(output)
        return json.dumps(read | {"subject": read["subject"] | changes}).encode()

    return on("log_follower ruling", changed)


def tar_of(*members):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, kind, data in members:
            member = tarfile.TarInfo(name)
            member.type, member.size, member.linkname = kind, len(data), "/etc/passwd"
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("spoil", "words"),
    shortened(
        12,
        [
            (on("follower fetch", lambda tar: tar[: len(tar) // 2]), "cannot be read"),
            (on("follower fetch", lambda tar: tar_of()), "is missing"),
            (on("follower fetch", lambda tar: b""), "cannot be read"),
            (on("follower fetch", lambda tar: tar.replace(b"ACCEPT", b"accept")), "altered after the verdict"),
            (
                on("follower fetch", lambda tar: tar_of(("../../x", tarfile.REGTYPE, b"x"))),
                "differs from the verdict file",
            ),
            (
                on("follower fetch", lambda tar: tar_of(("record.json", tarfile.SYMTYPE, b""))),
                "differs from the verdict file",
            ),
            (
                on("follower fetch", lambda tar: tar_of(("record.json", tarfile.REGTYPE, b"{}"))),
                "differs from the verdict file",
            ),
            (subject(commit="0" * 40), "verdict file of run"),
            (subject(run="20261121-093001-D1.1-000001"), "verdict file of run"),
            (subject(base="0" * 40), "differs from the job in: base"),
            (subject(pins="0" * 64), "differs from the job in: pins"),
            (subject(milestones=["D5d"], user="eve"), "differs from the job in: milestones, user"),
            (verdict(verdict="PERFECT"), "damaged verdict file"),
            (verdict(files={"../../../etc/cron.d/x": {"bytes": 1, "sha256": "0"}}), "is not allowed"),
            (verdict(files={"/etc/x": {"bytes": 1, "sha256": "0"}}), "is not allowed"),
            (verdict(files={".git/hooks/pre-commit": {"bytes": 1, "sha256": "0"}}), "is not allowed"),
            (verdict(files={"a": {"bytes": 1 << 40, "sha256": "0"}}), "too much"),
            (verdict(files={"a": {"bytes": -1, "sha256": "0"}}), "damaged"),
            (on("log_follower ruling", lambda output: b""), "damaged verdict file"),
            (on("log_follower ruling", lambda output: b"[" * 200_000), "damaged verdict file"),
            (on("log_follower ruling", lambda output: b"x" * (2 << 20)), "bytes of output"),
        ],
    ),
)
def test_lies_are_tampering(liar, left, spoil, words):
    client, entry = left
    liar.spoil = spoil
    entry = client.resume(copy(entry))
    assert entry.verdict == "TAMPERED" and words in entry.reason, entry.reason


@pytest.mark.parametrize(
    "words", ["python", *(pytest.param(f"log_follower {each}", marks=pytest.mark.long) for each in ("ruling", "fetch"))]
)
def test_abort_in_an_answer_is_retried(liar, client, words):
    aborted = []

    def once(output):
        aborted.append(1)
        return ABORT if len(aborted) == 1 else output

    liar.spoil = on(words, once)
    assert client.stage().verdict == "ACCEPT"
    assert aborted and any("trying again" in text for text in client.heard)


@pytest.mark.parametrize("answer", [b"", b"welcome!\n", b"[]\n", b'{"refused": "\\u001b[31mno"}\n', b"\xff\xfe\n"])
def test_nonsense_instead_of_the_bootstrap(liar, client, answer):
    liar.spoil = on("-I -", lambda output: answer)
    entry = client.stage()
    assert entry.verdict == "INFRA" and "\x1b" not in entry.reason


def test_flood_instead_of_progress(liar, left, monkeypatch):
    monkeypatch.setattr(link, "MAX_LINE_BYTES", 1 << 12)
    liar.through = THROUGH[:2]
    liar.spoil = on("log_follower follow", lambda output: b"x" * (1 << 20))
    client, entry = left
    assert client.resume(copy(entry)).verdict == "TAMPERED"


def test_made_up_events_are_harmless(liar, client):
    lines = [{"event": {"event": "ended", "name": "\x1b]0;x\x07[red]", "seconds": []}, "offset": 0}, {"beat": []}, 7]
    lines += [{"event": {"event": "phase"}, "offset": 0}, {"beat": {"phase": {}}, "age_s": "old"}, {"ended": True}]
    liar.through = THROUGH[:2]
    made_up = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    liar.spoil = on("log_follower follow", lambda output: made_up + output)
    assert client.stage().verdict == "ACCEPT"


def test_silent_server_is_given_up(client, liar, monkeypatch):
    monkeypatch.setattr(ssh_link, "CONNECT_S", 1.0)
    config = ssh_link.KNOWN_HOSTS.parent / "laptop/.ssh/config"
    text = config.read_text()
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        config.write_text(text.replace(str(liar.port), str(deaf.getsockname()[1])))
        try:
            with pytest.raises(Unreachable):
                client.stage()
        finally:
            config.write_text(text)


def test_page_from_a_host_does_not_arrive(client, project):
    text = (project.path / "harness/judge/run.py").read_text()
    page = """    for name in ("report.html", "page.html", "map.svg"):
        (options.out / name).write_text("<script>steal()</script>")
"""
    project.write("harness/judge/run.py", text.replace("    record.verdict = ", f"{page}    record.verdict = "))
    project.git("commit", "--quiet", "-am", "a report")
    entry = client.stage()
    assert entry.verdict == "ACCEPT"
    assert not [path for path in client.driver.store.folder(entry.run).rglob("*") if path.suffix in (".html", ".svg")]
