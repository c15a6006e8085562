"""Links over SSH, with the settings of ~/.ssh/config, pinned host keys, and no passwords."""

from __future__ import annotations

import shlex
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import paramiko
from fabric import Config, Connection

from remote.errors import ChangedHostKey, LinkLost, NotAdmitted, UnknownHostKey, Unreachable
from remote.link import CHUNK

KNOWN_HOSTS = Path(__file__).parent / "known_hosts"
CONNECT_S = 15.0
KEEPALIVE_S = 5


class SshStream:
    """A command in a channel of a connection."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel
        self._said = b""

    def send(self, data: bytes) -> None:
        with self._sending():
            self._channel.settimeout(CONNECT_S * 4)
            self._channel.sendall(data)

    def end_input(self) -> None:
        with self._sending():
            self._channel.shutdown_write()

    @contextmanager
    def _sending(self) -> Iterator[None]:
        """Ignore errors of sending to a command that has ended; its exit code says why. Raises LinkLost for others."""
        try:
            yield
        except (OSError, EOFError, paramiko.SSHException) as error:
            if not self._channel.exit_status_ready() or self._channel.exit_status < 0:
                raise LinkLost(f"the connection broke while sending: {error}") from error

    def read(self, timeout_s: float) -> bytes:
        self._channel.settimeout(timeout_s)
        try:
            data: bytes = self._channel.recv(CHUNK)
        except TimeoutError:
            raise
        except (OSError, paramiko.SSHException) as error:
            raise LinkLost(f"the connection broke: {error}") from error
        while self._channel.recv_stderr_ready():
            self._said = (self._said + self._channel.recv_stderr(CHUNK))[-4096:]
        return data

    def exit_code(self) -> int:
        if not self._channel.status_event.wait(CONNECT_S):
            raise LinkLost("the connection went silent at the end of a command")
        code: int = self._channel.recv_exit_status()
        if code < 0:
            raise LinkLost("the connection broke before the command ended")
        return code

    def errors(self) -> str:
        return self._said.decode(errors="replace")

    def close(self) -> None:
        with suppress(OSError, EOFError, paramiko.SSHException):
            self._channel.close()


class SshLink:
    """An open, checked connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def open(self, argv: Sequence[str], cwd: str | None = None) -> SshStream:
        """Start a command in the login shell there. Every word is quoted."""
        command = f"exec {shlex.join(argv)}"
        if cwd is not None:
            command = f"cd {shlex.quote(cwd)} && {command}"
        try:
            channel = self._connection.transport.open_session(timeout=CONNECT_S)
            channel.exec_command(command)
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise LinkLost(f"the connection broke: {error}") from error
        return SshStream(channel)

    def close(self) -> None:
        for hop in hops(self._connection):
            with suppress(OSError, EOFError, paramiko.SSHException):
                hop.close()


def connect(host: str, name: str) -> SshLink:
    """Open the connection to the host of target `name`; every hop must be a pinned host. Raises Unreachable."""
    connection = configured(host)
    for hop in hops(connection):
        check_host_keys(hop)
    try:
        connection.open()
    except paramiko.BadHostKeyException as error:
        raise ChangedHostKey(
            f"{error.hostname} has another host key than the pinned one. Ask its administrator why; if it is right: "
            f"make trust TARGET={name}"
        ) from error
    except paramiko.PasswordRequiredException as error:
        raise NotAdmitted(f"{host}: the key has a passphrase: add it to the agent (ssh-add)") from error
    except paramiko.AuthenticationException as error:
        raise NotAdmitted(f"{host}: no key was accepted; try: ssh {host}") from error
    except paramiko.SSHException as error:
        if "not found in known_hosts" in str(error):
            raise UnknownHostKey(
                f"{host} is not a pinned host: check its key and pin it with make trust TARGET={name}"
            ) from error
        raise Unreachable(f"{host}: {error}") from error
    except (OSError, EOFError) as error:
        raise Unreachable(f"{host}: {in_words(error, connection)}; try: ssh {host}") from error
    connection.transport.set_keepalive(KEEPALIVE_S)
    return SshLink(connection)


def configured(host: str) -> Connection:
    """Return a connection to `host` with the settings of ~/.ssh/config, not yet open. It never asks for a password."""
    config = Config(overrides={"load_ssh_configs": True})
    connection = Connection(host, config=config, connect_timeout=int(CONNECT_S))
    for hop in hops(connection):
        hop.connect_kwargs.update(banner_timeout=CONNECT_S, auth_timeout=CONNECT_S)
    return connection


def check_host_keys(connection: Connection) -> None:
    """Let a connection open only to a pinned host; the default accepts any host."""
    if KNOWN_HOSTS.exists():
        connection.client.load_host_keys(str(KNOWN_HOSTS))
    connection.client.set_missing_host_key_policy(paramiko.RejectPolicy())


def hops(connection: Connection) -> Iterator[Connection]:
    """Yield the connection and every gateway before it, each of which checks host keys separately."""
    while isinstance(connection, Connection):
        yield connection
        connection = connection.gateway


def in_words(error: BaseException, hop: Connection) -> str:
    """Return an error of connecting to `hop`, or to a gateway before it, in words."""
    if isinstance(error, paramiko.ssh_exception.NoValidConnectionsError):
        refused = ((address[0], address[1], each.strerror) for address, each in error.errors.items())
        return ", ".join(f"{host}, port {port}: {(why or 'no connection').lower()}" for host, port, why in refused)
    if isinstance(error, socket.gaierror):
        return f"{hop.host}: no such host"
    if isinstance(error, TimeoutError):
        return f"{hop.host}, port {hop.port}: no answer in {CONNECT_S:g} s"
    return str(error) or type(error).__name__
