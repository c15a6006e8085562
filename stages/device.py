"""Interface of the device that cases run on. The harness provides the implementations."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol


class Device(Protocol):
    """A device for launches. Every case is launched once in each completion mode of `modes`."""

    @property
    def name(self) -> str: ...

    @property
    def modes(self) -> tuple[str, ...]: ...

    @property
    def torch_device(self) -> str: ...

    @property
    def is_gpu(self) -> bool:
        """True for a GPU, False for the emulated device. Their tensor cores add otherwise, so pins differ."""

    def running(
        self, mode: str, seed: int, mbarriers: Mapping[int, str] | None = None
    ) -> AbstractContextManager[object]:
        """Return a context: launches inside run on the device in `mode`, and have ended when it is left.

        mbarriers: names of mbarriers for reports, by offset in shared memory.
        """
