"""Pinned host keys: the file of pinned keys, and the key that a host offers."""

from __future__ import annotations

import base64
import hashlib
import os
import socket
from dataclasses import dataclass
from pathlib import Path

import paramiko
from fabric import Connection

from remote import ssh_link
from remote.errors import Unreachable


@dataclass(frozen=True)
class Offered:
    """The key that a host offers. `name` is the host's name in the file of pinned keys.

    `pinned` is set if the file has this key, `changed` is set if another key is pinned.
    """

    name: str
    key: paramiko.PKey
    pinned: bool
    changed: bool

    @property
    def fingerprint(self) -> str:
        """The fingerprint, as ssh-keygen -l prints it."""
        digest = hashlib.sha256(self.key.asbytes()).digest()
        return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def offered(host: str) -> Offered:
    """Return the key of the first host on the way to `host` that is not pinned, gateways first, or else of `host`.

    This logs in to pinned gateways, because the way leads through them. Raises Unreachable.
    """
    way = list(ssh_link.hops(ssh_link.configured(host)))
    for hop in reversed(way):
        found = _offered(hop)
        if not found.pinned or hop is way[0]:
            return found
    raise AssertionError("the way to a host ends at the host")


def pin(found: Offered) -> None:
    """Pin a key, and remove other keys of that host."""
    kept = _known()
    if found.name in kept:
        del kept[found.name]
    kept.add(found.name, found.key.get_name(), found.key)
    fresh = Path(f"{ssh_link.KNOWN_HOSTS}.{os.getpid()}")
    kept.save(str(fresh))
    os.replace(fresh, ssh_link.KNOWN_HOSTS)


def _known() -> paramiko.HostKeys:
    return paramiko.HostKeys(str(ssh_link.KNOWN_HOSTS) if ssh_link.KNOWN_HOSTS.exists() else None)


def _offered(hop: Connection) -> Offered:
    name = hop.host if hop.port == 22 else f"[{hop.host}]:{hop.port}"
    pinned = _known().lookup(name)
    try:
        if hop.gateway:
            for gateway in ssh_link.hops(hop.gateway):
                ssh_link.check_host_keys(gateway)
            connected = hop.open_gateway()
        else:
            connected = socket.create_connection((hop.host, int(hop.port)), timeout=ssh_link.CONNECT_S)
        with paramiko.Transport(connected) as transport:
            if pinned:
                transport.get_security_options().key_types = _first(pinned.keys(), transport)
            transport.start_client(timeout=ssh_link.CONNECT_S)
            key = transport.get_remote_server_key()
    except (OSError, EOFError, paramiko.SSHException) as error:
        raise Unreachable(f"{name}: {ssh_link.in_words(error, hop)}") from error
    same = pinned is not None and pinned.get(key.get_name()) == key
    return Offered(name, key, same, bool(pinned) and not same)


def _first(names: list[str], transport: paramiko.Transport) -> tuple[str, ...]:
    """Return the key types of `transport`, with those of the pinned keys first."""
    types = transport.get_security_options().key_types
    return tuple(sorted(types, key=lambda each: each not in names))
