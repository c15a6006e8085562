"""A real OpenSSH server on 127.0.0.1, run by an unprivileged user of its own with its own home."""

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from remote import ssh

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:" + os.environ["PATH"])
PACKAGES = "import msgspec, packaging"


@dataclass(frozen=True)
class Account:
    """Who the host runs as, where it may write, and an interpreter with the packages that it may run."""

    name: str
    uid: int
    folder: Path
    python: str

    def own(self, *paths: Path) -> None:
        if os.getuid() == 0:
            for path in paths:
                shutil.chown(path, self.name)


class Sshd:
    """The server; `stop`, `kill` and `freeze` it, and start it again with another host key."""

    def __init__(self, account: Account, folder: Path) -> None:
        self.account = account
        self.folder = folder
        self.port = self.free_port()
        self.process: subprocess.Popen[bytes] | None = None
        keygen(folder / "user_key")
        self.new_host_key()

    @staticmethod
    def free_port() -> int:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return int(probe.getsockname()[1])

    def new_host_key(self) -> None:
        for path in self.folder.glob("host_key*"):
            path.unlink()
        keygen(self.folder / "host_key")
        shutil.copy(self.folder / "user_key.pub", self.folder / "authorized_keys")
        self.account.own(self.folder, *self.folder.glob("host_key*"), self.folder / "authorized_keys")

    def start(self) -> None:
        config = self.folder / "sshd_config"
        config.write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.folder}/host_key\nPidFile none\nUsePAM no\n"
            f"AuthorizedKeysFile {self.folder}/authorized_keys\nStrictModes no\nPasswordAuthentication no\n"
            "KbdInteractiveAuthentication no\nMaxStartups 100\nLogLevel ERROR\n"
            f"SetEnv PIP_CONFIG_FILE={self.folder}/pip.conf\n"
        )
        config.chmod(0o644)
        user = {"user": self.account.uid, "group": pwd.getpwnam(self.account.name).pw_gid, "extra_groups": []}
        self.process = subprocess.Popen(
            [str(SSHD), "-D", "-e", "-f", str(config)],
            stderr=open(self.folder / "sshd.log", "ab"),  # noqa: SIM115
            **(user if os.getuid() == 0 else {}),
        )
        deadline = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                assert self.process.poll() is None, (self.folder / "sshd.log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.02)

    def sessions(self) -> list[psutil.Process]:
        """The server's processes of open connections: those below it that are sshd themselves."""
        assert self.process is not None
        below = psutil.Process(self.process.pid).children(recursive=True)
        return [each for each in below if each.name().startswith("sshd")]

    def signal_all(self, number: int) -> None:
        assert self.process is not None
        for each in [*self.sessions(), psutil.Process(self.process.pid)]:
            with suppress(psutil.NoSuchProcess):
                each.send_signal(number)

    def kill(self) -> None:
        """SIGKILL for the server and every connection of it; what they started goes on."""
        self.signal_all(signal.SIGKILL)
        assert self.process is not None
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.signal_all(signal.SIGCONT)
            self.kill()


def keygen(path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)


@pytest.fixture(scope="session")
def account() -> Iterator[Account]:
    """A user made for these tests where that is possible (as root), else the one who runs them."""
    if SSHD is None:
        pytest.skip("needs a real OpenSSH server (Debian: apt-get install openssh-server)")
    folder = Path(tempfile.mkdtemp(prefix="fmha-host-"))
    folder.chmod(0o755)
    if os.getuid() != 0:
        yield Account(pwd.getpwuid(os.getuid()).pw_name, os.getuid(), folder, sys.executable)
        shutil.rmtree(folder, ignore_errors=True)
        return
    name = f"fmha-{secrets.token_hex(4)}"
    subprocess.run(["useradd", "--create-home", "--home-dir", folder / "home", "--shell", "/bin/sh", name], check=True)
    user = pwd.getpwnam(name)
    try:
        yield Account(name, user.pw_uid, folder, reachable_python(name, folder / "home"))
    finally:
        for each in psutil.process_iter(["uids"]):
            if each.info["uids"] and each.info["uids"].real == user.pw_uid:
                each.kill()
        time.sleep(0.1)
        subprocess.run(["userdel", name], check=True)
        shutil.rmtree(folder, ignore_errors=True)


def reachable_python(name: str, home: Path) -> str:
    """An interpreter that user `name` may run, with the packages of this one."""

    def works(python: str) -> bool:
        as_user = ["runuser", "-u", name, "--", python, "-c", PACKAGES]
        return subprocess.run(as_user, capture_output=True, cwd="/").returncode == 0

    if works(sys.executable):
        return sys.executable
    system = f"/usr/bin/python3.{sys.version_info.minor}"
    subprocess.run(["runuser", "-u", name, "--", system, "-m", "venv", "--without-pip", home / "env"], check=True)
    packages = next(Path(path) for path in sys.path if path.endswith("site-packages"))
    library = next((home / "env/lib").glob("python3*")) / "site-packages/shared.pth"
    library.write_text(f"import site; site.addsitedir({str(packages)!r})\n")
    assert works(str(home / "env/bin/python")), f"{name} cannot use the packages in {packages}"
    return str(home / "env/bin/python")


@pytest.fixture
def sshd(account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    """A running server, known as `b200` in this client's ~/.ssh/config, its key pinned."""
    folder = account.folder / secrets.token_hex(4)
    folder.mkdir()
    server = Sshd(account, folder)
    home = tmp_path / "laptop"
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    (home / ".ssh/config").write_text(
        f"Host b200\n  HostName 127.0.0.1\n  Port {server.port}\n  User {account.name}\n"
        f"  IdentityFile {folder}/user_key\n  IdentitiesOnly yes\n"
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setattr(ssh, "KNOWN_HOSTS", tmp_path / "known_hosts")
    pin_key(server)
    server.start()
    yield server
    server.stop()


def pin_key(server: Sshd) -> None:
    kind, key = (server.folder / "host_key.pub").read_text().split()[:2]
    ssh.KNOWN_HOSTS.write_text(f"[127.0.0.1]:{server.port} {kind} {key}\n")
