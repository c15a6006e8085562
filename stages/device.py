"""What a milestone's module asks of the device that it runs on; the harness brings one."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol


class Device(Protocol):
    """Where launches go. `modes` are the orders of completion that every launch is repeated under."""

    @property
    def name(self) -> str: ...

    @property
    def modes(self) -> tuple[str, ...]: ...

    @property
    def torch_device(self) -> str: ...

    def running(
        self, mode: str, seed: int, mbarriers: Mapping[int, str] | None = None
    ) -> AbstractContextManager[object]:
        """Launches made inside go to the device, under `mode`, and are done when it is left.

        mbarriers: their names for reports, by offset in shared memory.
        """
