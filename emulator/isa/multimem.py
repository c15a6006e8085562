"""multimem: memory of several GPUs, which the emulated device does not have."""

from emulator.errors import UnknownInstruction
from emulator.isa.registry import Action, executes
from emulator.ptx.syntax import Instr


@executes("multimem.ld_reduce", "multimem.st", "multimem.red")
def _multimem(ins: Instr) -> Action:
    raise UnknownInstruction(ins, "multimem: memory of several GPUs")
