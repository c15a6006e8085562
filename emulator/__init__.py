"""A functional emulator of the B200 that runs the PTX of any CuTeDSL program on the CPU.

    with emulator.emulate(completion="lazy") as device:
        compiled(*cpu_tensors)
    device.launches[-1].instructions

Import it before compiling: it asks CuTeDSL to keep the PTX.
"""

from emulator.bridge.device import EmulatedDevice, LaunchResult
from emulator.bridge.driver import NotEmulated
from emulator.bridge.patches import emulate, keep_ptx
from emulator.errors import EmulatorError

__all__ = ["EmulatedDevice", "EmulatorError", "LaunchResult", "NotEmulated", "emulate"]

keep_ptx()
