"""A real OpenSSH server on 127.0.0.1, for tests and measurements. It accepts one key and uses one folder."""

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

#: The folder that sshd needs when root starts it. On Debian only its service creates it.
EMPTY = Path("/run/sshd")


class SshdError(RuntimeError):
    """The server did not start. The message is the server's."""


class Sshd:
    """A server in `folder`, with its own keys. It can be stopped and started again."""

    def __init__(self, folder: Path, options: str = "") -> None:
        """Prepare the server. `options` are additional lines of its sshd_config."""
        self.folder = folder
        self.options = options
        self._reserved, self.port = reserved_port()
        self.process: subprocess.Popen[bytes] | None = None
        keygen(folder / "user_key")
        self.new_host_key()

    def new_host_key(self) -> None:
        """Replace its host key; the next start uses it."""
        for path in self.folder.glob("host_key*"):
            path.unlink()
        keygen(self.folder / "host_key")
        shutil.copy(self.folder / "user_key.pub", self.folder / "authorized_keys")

    def start(self, **process: Any) -> None:
        """Start the server; `process` are further arguments of Popen. Root's `EMPTY` is left. Raises SshdError."""
        if os.getuid() == 0:
            EMPTY.mkdir(mode=0o755, exist_ok=True)
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
                raise SshdError(log.read_text().strip() or "sshd printed nothing")
            time.sleep(0.02)

    def client_config(self, alias: str, user: str = "") -> str:
        """Return the entry of ~/.ssh/config that logs in as `user` (default: the current user)."""
        return (
            f"Host {alias}\n  HostName 127.0.0.1\n  Port {self.port}\n  User {user or getpass.getuser()}\n"
            f"  IdentityFile {self.folder}/user_key\n  IdentitiesOnly yes\n"
        )

    def known_host(self) -> str:
        """Return the server's line of known_hosts."""
        kind, key = (self.folder / "host_key.pub").read_text().split()[:2]
        return f"[127.0.0.1]:{self.port} {kind} {key}\n"

    def stop(self) -> None:
        """Kill the server; processes that it started go on."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def close(self) -> None:
        """Stop the server and release its port."""
        self.stop()
        self._reserved.close()


def reserved_port() -> tuple[socket.socket, int]:
    """Return a socket and its free port. While it is open, only a listener with SO_REUSEADDR can use the port."""
    reserved = socket.socket()
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    return reserved, int(reserved.getsockname()[1])


def keygen(path: Path) -> None:
    """Create a key pair without a passphrase."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
