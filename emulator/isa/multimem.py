"""Multi-GPU memory (multimem), which the emulated device does not have."""

from ..errors import UnknownInstruction
from ..ptx.syntax import Instr
from .registry import Action, executes


@executes("multimem.ld_reduce", "multimem.st", "multimem.red")
def _multimem(ins: Instr) -> Action:
    raise UnknownInstruction(ins, "multimem needs several GPUs; one is emulated")
