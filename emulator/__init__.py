"""A functional emulator of the B200 that runs the PTX of any program for sm_100a on the CPU.

    with emulator.emulate(completion="lazy") as device:
        compiled(*cpu_tensors)
    device.launches[-1].instructions

    launch(ptx, "kernel", [array, tensor, 3, 0.5], grid=8, block=128)

Import it before compiling with CuTeDSL, so that CuTeDSL keeps the PTX.
"""

from .bridge.driver import NotEmulated, is_entered
from .bridge.patches import keep_ptx
from .bridge.result import LaunchResult
from .bridge.saved import SavedFunction, save
from .emulation import EmulatedDevice, emulate
from .errors import EmulatorError
from .findings import Finding, Verdict
from .launching import launch
from .machine.launch.statistics import Stats

__all__ = [
    "EmulatedDevice",
    "EmulatorError",
    "Finding",
    "LaunchResult",
    "NotEmulated",
    "SavedFunction",
    "Stats",
    "Verdict",
    "emulate",
    "is_entered",
    "launch",
    "save",
]

keep_ptx()
