"""The two devices that a milestone runs on: an emulated chip and a real one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Literal


class Emulated:
    """An emulated chip, which works on CPU tensors in every completion mode. Create it before compiling the kernel.

    chip: `b200` or `h200`, as CUTE_DSL_ARCH or EMULATOR_DEVICE says.
    """

    modes: tuple[str, ...] = ("eager", "lazy", "random")
    torch_device = "cpu"
    is_gpu = False

    def __init__(self) -> None:
        import emulator  # asks CuTeDSL to keep the PTX
        from emulator.chip import DEVICE, NAME
        from emulator.clock.conditions import Conditions

        self.chip, self.name = NAME, f"emulated {DEVICE.name}"
        self._emulate: Callable[..., AbstractContextManager[object]] = emulator.emulate
        self._conditions = Conditions
        self._save, self._saved = emulator.save, emulator.SavedFunction

    def running(
        self, mode: str, seed: int, mbarriers: Mapping[int, str] | None = None
    ) -> AbstractContextManager[object]:
        """Emulate launches in the body. `mbarriers` are names for reports, by offset in shared memory."""
        return self._emulate(completion=mode, seed=seed, level="pedantic", names=lambda _kernel: mbarriers or {})

    def saved(self, function: object) -> tuple[str, str, bytes]:
        """Return the name, PTX and host code of a compiled function."""
        saved = self._save(function)
        return saved.name, saved.ptx, saved.host

    def restored(self, name: str, ptx: str, host: bytes, of: Callable[..., object], cubin: bytes = b"") -> object:
        """Return a compiled function from what `saved` returned, and its machine code for recordings.

        It runs on this device only; `of` is its source.
        """
        return self._saved(name, ptx, host, cubin).restored(of)

    def timing(
        self,
        chip: str,
        mbarriers: Mapping[int, str] | None = None,
        trace: bool = False,
        ranges: bool = False,
        ghz: float | None = None,
        branches: Literal["assumed", "executed"] = "assumed",
        clusters: frozenset[tuple[int, int, int]] = frozenset(),
    ) -> AbstractContextManager[object]:
        """Predict the time of launches in the body on a chip; they compute nothing. For `mbarriers` see `running`.

        ghz: a fixed clock rate; None for the chip's own. branches, clusters: see emulator/clock/conditions.py.
        """
        conditions = self._conditions(ranges=ranges, ghz=ghz, branches=branches, clusters=clusters)
        return self._emulate(clock=chip, trace=trace, names=lambda _kernel: mbarriers or {}, conditions=conditions)


class Cuda:
    """A real GPU. It has one mode, because the hardware chooses the order of completion."""

    modes: tuple[str, ...] = ("cuda",)
    torch_device = "cuda"
    is_gpu = True

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
