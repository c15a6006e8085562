"""A real OpenSSH server on 127.0.0.1, for tests and measurements. It admits one key, and lies in one folder."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

SSHD = shutil.which("sshd", path=f"/usr/sbin:/usr/local/sbin:{os.environ.get('PATH', '')}")
START_S = 10.0


class SshdError(RuntimeError):
    """The server did not start; the message is its own."""


class Sshd:
    """The server in `folder`, with keys of its own. Once stopped it may be started again."""

    def __init__(self, folder: Path, options: str = "") -> None:
        """`options` are lines of sshd_config beside its own."""
        self.folder = folder
        self.options = options
        self._reserved, self.port = reserved_port()
        self.process: subprocess.Popen[bytes] | None = None
        keygen(folder / "user_key")
        self.new_host_key()

    def new_host_key(self) -> None:
        """Give it another host key; it shows it when it is started again."""
        for path in self.folder.glob("host_key*"):
            path.unlink()
        keygen(self.folder / "host_key")
        shutil.copy(self.folder / "user_key.pub", self.folder / "authorized_keys")

    def start(self, **process: Any) -> None:
        """Start it, as a process of these further settings. Raises SshdError."""
        config, log = self.folder / "sshd_config", self.folder / "sshd.log"
        config.write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.folder}/host_key\nPidFile none\nUsePAM no\n"
            f"AuthorizedKeysFile {self.folder}/authorized_keys\nStrictModes no\nPasswordAuthentication no\n"
            f"KbdInteractiveAuthentication no\nMaxStartups 100\nLogLevel ERROR\n{self.options}"
        )
        config.chmod(0o644)
        with open(log, "ab") as errors:
            self.process = subprocess.Popen([str(SSHD), "-D", "-e", "-f", str(config)], stderr=errors, **process)
        deadline = time.monotonic() + START_S
        while True:
            with suppress(OSError):
                return socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise SshdError(log.read_text().strip() or "it said nothing")
            time.sleep(0.02)

    def client_config(self, alias: str, user: str = "") -> str:
        """What ~/.ssh/config says to log in there as `user`, by default who runs this."""
        return (
            f"Host {alias}\n  HostName 127.0.0.1\n  Port {self.port}\n  User {user or getpass.getuser()}\n"
            f"  IdentityFile {self.folder}/user_key\n  IdentitiesOnly yes\n"
        )

    def known_host(self) -> str:
        """What known_hosts says of it."""
        kind, key = (self.folder / "host_key.pub").read_text().split()[:2]
        return f"[127.0.0.1]:{self.port} {kind} {key}\n"

    def stop(self) -> None:
        """End it; what it started goes on."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def close(self) -> None:
        """Stop it for good."""
        self.stop()
        self._reserved.close()


def reserved_port() -> tuple[socket.socket, int]:
    """A port that nobody else is given while the socket is open; who asks to reuse addresses can listen there."""
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    return reserved, int(reserved.getsockname()[1])


def keygen(path: Path) -> None:
    """Make a key pair without a passphrase."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
