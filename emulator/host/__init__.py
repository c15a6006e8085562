"""The host side of the emulated B200: what a script written for a GPU asks of torch, CUDA and CuTeDSL around its launches."""

from emulator.host.properties import B200, DeviceProperties
from emulator.host.refusal import NotEmulated
from emulator.host.session import emulated_host

__all__ = ["B200", "DeviceProperties", "NotEmulated", "emulated_host"]
