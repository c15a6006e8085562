"""The two devices that a milestone runs on: the emulated B200 and a real one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager


class Emulated:
    """The embedded B200: CPU tensors, every order of completion. Made before the kernel is compiled."""

    name = "emulated B200"
    modes: tuple[str, ...] = ("eager", "lazy", "random")
    torch_device = "cpu"

    def __init__(self) -> None:
        import emulator  # asks CuTeDSL to keep the PTX

        self._emulate: Callable[..., AbstractContextManager[object]] = emulator.emulate
        self._save, self._saved = emulator.save, emulator.SavedFunction

    def running(
        self, mode: str, seed: int, mbarriers: Mapping[int, str] | None = None
    ) -> AbstractContextManager[object]:
        """mbarriers: their names in reports, by offset in shared memory, for the kernels that are launched inside."""
        return self._emulate(completion=mode, seed=seed, level="formal", names=lambda _kernel: mbarriers or {})

    def saved(self, function: object) -> tuple[str, str, bytes]:
        """A compiled function as its name, PTX and host code."""
        saved = self._save(function)
        return saved.name, saved.ptx, saved.host

    def restored(self, name: str, ptx: str, host: bytes, of: Callable[..., object]) -> object:
        """The compiled function again, for this device alone; `of` is what was compiled."""
        return self._saved(name, ptx, host).restored(of)

    def timing(
        self, chip: str, mbarriers: Mapping[int, str] | None = None, trace: bool = False
    ) -> AbstractContextManager[object]:
        """Launches inside are predicted for a chip, and compute nothing. mbarriers as for `running`."""
        return self._emulate(clock=chip, trace=trace, names=lambda _kernel: mbarriers or {})


class Cuda:
    """A real GPU: one mode, for the hardware chooses its own order."""

    modes: tuple[str, ...] = ("cuda",)
    torch_device = "cuda"

    @property
    def name(self) -> str:
        import torch

        return torch.cuda.get_device_name()

    @contextmanager
    def running(self, mode: str, seed: int, mbarriers: Mapping[int, str] | None = None) -> Iterator[None]:
        import torch

        yield
        torch.cuda.synchronize()


DEVICES: dict[str, type[Emulated | Cuda]] = {"emulator": Emulated, "cuda": Cuda}
