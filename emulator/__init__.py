"""A functional emulator of the B200 that runs the PTX of any CuTeDSL program on the CPU.

    with emulator.emulate(completion="lazy") as device:
        compiled(*cpu_tensors)
    device.launches[-1].instructions

Import it before compiling: it asks CuTeDSL to keep the PTX.
"""

from .bridge.device import EmulatedDevice
from .bridge.driver import NotEmulated
from .bridge.patches import emulate, keep_ptx
from .bridge.result import LaunchResult
from .errors import EmulatorError
from .machine.statistics import Stats

__all__ = ["EmulatedDevice", "EmulatorError", "LaunchResult", "NotEmulated", "Stats", "emulate"]

keep_ptx()
