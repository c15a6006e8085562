"""Fixtures: a real OpenSSH server on 127.0.0.1, run by an unprivileged user with its own home, and a real Slurm."""

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from remote import ssh_link
from remote.loopback import SSHD, Sshd
from tests.remote.slurm_cluster import Cluster

PACKAGES = "import msgspec, packaging"


@dataclass(frozen=True)
class Account:
    """The account of the host, a folder that it may write to, and an interpreter with packages that it may run."""

    name: str
    uid: int
    gid: int
    folder: Path
    python: str

    def own(self, *paths: Path) -> None:
        if os.getuid() == 0:
            for path in paths:
                shutil.chown(path, self.name)


class Server(Sshd):
    """The server, run by the account. `signal_all` can freeze it; `kill` ends it with every connection."""

    def __init__(self, account: Account, folder: Path) -> None:
        self.account = account
        variables = {"PIP_CONFIG_FILE": f"{folder}/pip.conf", "SLURM_CONF": os.environ.get("SLURM_CONF", "")}
        super().__init__(folder, f"SetEnv {' '.join(f'{name}={value}' for name, value in variables.items())}\n")

    def new_host_key(self) -> None:
        super().new_host_key()
        self.account.own(self.folder, *self.folder.glob("host_key*"), self.folder / "authorized_keys")

    def start(self, **process: Any) -> None:
        user = {"user": self.account.uid, "group": self.account.gid, "extra_groups": []}
        super().start(**process, **(user if os.getuid() == 0 else {}))

    def sessions(self) -> list[psutil.Process]:
        """Return the server's processes for open connections: its descendants named sshd."""
        assert self.process is not None
        found = []
        for each in psutil.Process(self.process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # it ended since it was listed
                if each.name().startswith("sshd"):
                    found.append(each)
        return found

    def signal_all(self, number: int) -> None:
        assert self.process is not None
        for each in [*self.sessions(), psutil.Process(self.process.pid)]:
            with suppress(psutil.NoSuchProcess):
                each.send_signal(number)

    def kill(self) -> None:
        """Kill the server and its connections. Processes that they started go on."""
        self.signal_all(signal.SIGKILL)
        super().stop()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()


@pytest.fixture(scope="module", autouse=True)
def patience() -> Iterator[None]:
    """Raise the limits of silence, because the machine may be busy. Tests of silence set their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("remote.link.SILENCE_S", 60.0)
        patch.setattr(ssh_link, "CONNECT_S", 60.0)
        yield


@pytest.fixture(scope="session")
def account() -> Iterator[Account]:
    """Provide a new user for these tests if they run as root, otherwise the current user."""
    with new_account() as made:
        yield made


@pytest.fixture
def other_account() -> Iterator[Account]:
    """Provide another Unix user of the same host."""
    if os.getuid() != 0:
        pytest.skip("only root makes another user")
    with new_account() as made:
        yield made


@contextmanager
def new_account() -> Iterator[Account]:
    if SSHD is None:
        pytest.skip("needs a real OpenSSH server (Debian: apt-get install openssh-server)")
    folder = Path(tempfile.mkdtemp(prefix="fmha-host-"))
    folder.chmod(0o755)
    if os.getuid() != 0:
        yield Account(pwd.getpwuid(os.getuid()).pw_name, os.getuid(), os.getgid(), folder, sys.executable)
        shutil.rmtree(folder, ignore_errors=True)
        return
    name = f"fmha-{secrets.token_hex(4)}"
    subprocess.run(["useradd", "--create-home", "--home-dir", folder / "home", "--shell", "/bin/sh", name], check=True)
    user = pwd.getpwnam(name)
    try:
        yield Account(name, user.pw_uid, user.pw_gid, folder, reachable_python(name, folder / "home"))
    finally:
        for each in psutil.process_iter(["uids"]):
            if each.info["uids"] and each.info["uids"].real == user.pw_uid:
                each.kill()
        time.sleep(0.1)
        subprocess.run(["userdel", name], check=True)
        shutil.rmtree(folder, ignore_errors=True)


def reachable_python(name: str, home: Path) -> str:
    """Return an interpreter that user `name` may run, with the packages of this one."""

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
def laptop_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an empty home for the client's user, and an empty file of pinned keys."""
    home = tmp_path / "laptop"
    (home / ".ssh").mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setattr(ssh_link, "KNOWN_HOSTS", tmp_path / "known_hosts")
    return home


@pytest.fixture
def sshd(account: Account, laptop_home: Path) -> Iterator[Server]:
    """Run a server that is `b200` in the client's ~/.ssh/config and whose key is pinned."""
    with serving(account, "b200", laptop_home) as server:
        yield server


@contextmanager
def serving(account: Account, name: str, home: Path) -> Iterator[Server]:
    """Run a server of an account, known to the client by `name`."""
    folder = account.folder / secrets.token_hex(4)
    folder.mkdir()
    server = Server(account, folder)
    for path, text in (
        (home / ".ssh/config", server.client_config(name, account.name)),
        (ssh_link.KNOWN_HOSTS, server.known_host()),
    ):
        with open(path, "a") as stream:
            stream.write(text)
    server.start()
    try:
        yield server
    finally:
        server.close()


@pytest.fixture(scope="session")
def running_cluster() -> Iterator[Cluster]:
    """Run a Slurm of two nodes for all tests, and query it more often than usual."""
    if os.getuid() != 0:
        pytest.skip("slurmd starts jobs as root")
    with pytest.MonkeyPatch.context() as patch:
        made = Cluster()
        patch.setenv("SLURM_CONF", str(made.configuration))
        patch.setattr("remote.slurm.LOOK_S", 0.3)
        patch.setattr("remote.slurm.VISIBLE_S", 1.0)
        patch.setattr("remote.link.SILENCE_S", 60.0)
        try:
            made.start()
            yield made
        finally:
            made.stop()


@pytest.fixture
def cluster(running_cluster: Cluster) -> Iterator[Cluster]:
    """Provide the cluster, idle at first, and clear it after the test."""
    yield running_cluster
    running_cluster.clear()
