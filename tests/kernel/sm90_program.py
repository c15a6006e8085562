"""Verify cases of the milestones on the emulated H200; a process has one chip, so this is one of its own.

`python sm90_program.py < cases`: cases are a JSON list of [milestone, name]. Prints a line of JSON for each: what is
wrong, or "", and the kernel's PTX instructions, registers, bytes of stack, and PTX target.
"""

from __future__ import annotations

import json
import sys

from harness.judge.kept import kept_kernels, use
from remote.device import Emulated
from stages.verify import Result


class Ignore:
    """A recorder that keeps nothing."""

    def result(self, result: Result) -> None:
        """Ignore a result."""

    def negative_control(self, name: str, refused_by: tuple[object, ...]) -> None:
        """Ignore a negative control."""


def main() -> None:
    device = Emulated()
    assert device.name == "emulated H200"
    if (kept := kept_kernels(device)) is not None:
        use(kept)
    import kernel
    from kernel.cubin import resources
    from stages import catalog
    from stages.verify import verify

    for milestone, name in json.load(sys.stdin):
        (case,) = (each for each in catalog.find(milestone).load().CASES if each.name == name)
        compiled = kernel.compile(case.config)
        lines = [line.strip() for line in compiled.ptx.splitlines()]
        instructions = sum(line.endswith(";") and not line.startswith(".") for line in lines)
        found = resources(compiled.cubin)
        wrong = ""
        try:
            verify(case, 1, device, Ignore())
        except Exception as error:
            wrong = f"{type(error).__name__}: {error}"
        target = "sm_90a" if ".target sm_90a" in compiled.ptx else "another"
        print(json.dumps([wrong, instructions, found.registers, found.stack_bytes, target]), flush=True)


if __name__ == "__main__":
    main()
