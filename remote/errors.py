"""The errors of targets and of the links to them.

RemoteError
├── TargetError          the targets file or the name of a target is wrong
├── Unreachable          the connection could not be opened
│   ├── HostKeyError
│   │   ├── UnknownHostKey
│   │   └── ChangedHostKey
│   └── NotAdmitted      the host accepted no key
├── LinkLost             the connection broke or went silent; the run goes on
├── Refused              the target cannot do what was asked
└── Untrusted            the target sent something invalid
"""

#: Limit of the text of an error.
MOST_CHARS = 1000


class RemoteError(Exception):
    """Base class. Its text is reduced to one printable line, because it may come from the target."""

    def __str__(self) -> str:
        return "".join(c if c.isprintable() else " " for c in super().__str__()[:MOST_CHARS]).rstrip()


class TargetError(RemoteError):
    """The targets file or the name of a target is wrong."""


class Unreachable(RemoteError):
    """The connection could not be opened."""


class HostKeyError(Unreachable):
    """The host did not prove to be the pinned one. Nothing was sent to it."""


class UnknownHostKey(HostKeyError):
    """No key of this host is pinned."""


class ChangedHostKey(HostKeyError):
    """The host has another key than the pinned one."""


class NotAdmitted(Unreachable):
    """The host accepted no key from the agent or the configuration."""


class LinkLost(RemoteError):
    """The connection broke, or was silent for too long. The run on the host goes on."""


class Refused(RemoteError):
    """The target reports that it cannot do what was asked."""


class Untrusted(RemoteError):
    """The target sent something too large, malformed, or with a path that leads out of its folder."""
