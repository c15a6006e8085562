"""multimem: memory of several GPUs, which the emulated device does not have."""

from emulator.errors import UnknownInstruction
from emulator.isa.registry import Run, executes
from emulator.ptx.syntax import Instr


@executes("multimem.ld_reduce", "multimem.st", "multimem.red")
def _multimem(ins: Instr) -> Run:
    raise UnknownInstruction(ins, "multimem: memory of several GPUs")
