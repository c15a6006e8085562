"""The host side of the emulated B200: torch, CUDA and CuTeDSL as a script written for a GPU sees them."""

from emulator.host.properties import B200, DeviceProperties
from emulator.host.refusal import NotEmulated
from emulator.host.session import emulated_host

__all__ = ["B200", "DeviceProperties", "NotEmulated", "emulated_host"]
