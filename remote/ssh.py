"""Hosts that are reached over SSH, as targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from remote.detached import Detached
from remote.link import Link


@dataclass(frozen=True)
class Ssh(Detached):
    """Target of `kind = "ssh"`. `host` is as given to ssh; `python` "" is the provisioned environment."""

    name: str
    host: str
    workdir: str
    python: str = ""
    base_python: str = ""
    device: str = "cuda"
    arch: str = "sm_100a"
    gpu: int = 0
    sync: str = "push"
    disk_mb: int = 2048
    shared: bool = True
    provisionable: ClassVar[bool] = True
    why_not_from_here: ClassVar[str] = ""

    def connect(self) -> Link:
        """Open the connection; every hop must be a pinned host. Raises Unreachable."""
        from remote import ssh_link  # takes 0.1 s to import, which every command would wait for

        return ssh_link.connect(self.host, self.name)
