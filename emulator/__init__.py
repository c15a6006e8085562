"""A functional emulator of the B200 that runs the PTX of any CuTeDSL program on the CPU.

    with emulator.emulate(completion="lazy") as device:
        compiled(*cpu_tensors)
    device.launches[-1].instructions

Import it before compiling: it asks CuTeDSL to keep the PTX.
"""

from emulator.bridge.device import EmulatedDevice
from emulator.bridge.driver import NotEmulated
from emulator.bridge.patches import emulate, keep_ptx
from emulator.bridge.result import LaunchResult
from emulator.errors import EmulatorError
from emulator.machine.statistics import Stats

__all__ = ["EmulatedDevice", "EmulatorError", "LaunchResult", "NotEmulated", "Stats", "emulate"]

keep_ptx()
