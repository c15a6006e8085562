"""Everything that can go wrong on the way to a target.

RemoteError
├── TargetError          the targets file, or the name of a target, is wrong
├── Unreachable          no connection came about
│   ├── HostKeyError
│   │   ├── UnknownHostKey
│   │   └── ChangedHostKey
│   └── NotAdmitted      no key or agent was accepted
├── LinkLost             the connection broke, or went silent: what runs there goes on
├── Refused              the target says that it cannot do it
└── Untrusted            what came back is not what may come back
"""

#: Of the text of an error.
MOST_CHARS = 1000


class RemoteError(Exception):
    """Something went wrong on the way to a target. Reads as one printable line: a target may have worded it."""

    def __str__(self) -> str:
        return "".join(c if c.isprintable() else " " for c in super().__str__()[:MOST_CHARS]).rstrip()


class TargetError(RemoteError):
    """The targets file, or the name of a target, is wrong."""


class Unreachable(RemoteError):
    """No connection came about."""


class HostKeyError(Unreachable):
    """The host did not prove to be the pinned one; nothing was sent to it."""


class UnknownHostKey(HostKeyError):
    """No key of this host is pinned."""


class ChangedHostKey(HostKeyError):
    """The host has another key than the pinned one."""


class NotAdmitted(Unreachable):
    """The host accepted no key that the agent or the configuration offers."""


class LinkLost(RemoteError):
    """The connection broke, or went silent for too long. What runs on the host goes on."""


class Refused(RemoteError):
    """The target says that it cannot do what was asked."""


class Untrusted(RemoteError):
    """What came back is too large, misshapen, or leads out of its folder."""
