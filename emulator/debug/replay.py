"""Global memory as it was before a launch, to run the launch again."""

from __future__ import annotations

import ctypes

from ..machine.launch.globalmem import host_bytes
from ..machine.launch.launch import Launch


class Snapshot:
    """The bytes of a launch's known allocations. Memory that the launch does not know is not in it."""

    def __init__(self, launch: Launch) -> None:
        found = {(address, size) for address, size, _ in launch.allocations if size}
        self._saved = [(address, host_bytes(address, size).tobytes()) for address, size in sorted(found)]

    def restore(self) -> None:
        """Write back what has changed."""
        for address, saved in self._saved:
            if host_bytes(address, len(saved)).tobytes() != saved:
                ctypes.memmove(address, saved, len(saved))
