"""Machine code that NVIDIA's assembler makes of PTX: its registers, stack, spills, barriers and instruction counts.

ptxas and nvdisasm come from PyPI (`pip install ptx-emulator[machine-code]`) or from a CUDA toolkit. No GPU is needed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from .errors import AssemblerError

INSTALL: Final = "pip install nvidia-cuda-nvcc nvidia-cuda-nvdisasm, or put a CUDA toolkit's bin folder on PATH"
_ENTRY: Final = re.compile(r"Compiling entry function '([^']+)'")
_PROPERTIES: Final = re.compile(r"Function properties for (\S+)")
_STACK: Final = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED: Final = re.compile(r"Used (\d+) registers(?:, used (\d+) barriers)?(?:.*?(\d+) bytes smem)?")
_VERSION: Final = re.compile(r"V(\d+\.\d+\.\d+)")
_FUNCTION: Final = re.compile(r"^\s*\.section\s+\.text\.(\S+?),", re.MULTILINE)
_SASS: Final = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d+\s+)?([A-Z][A-Z0-9_]*)", re.MULTILINE)


@dataclass(frozen=True)
class Resources:
    """The resources of a kernel: registers per thread, bytes of local memory per thread, named barriers per CTA.

    stack_bytes: of the frame. spill_store_bytes, spill_load_bytes: moved by instructions that spill registers, as ptxas
    counts them. shared_bytes: static shared memory. instructions: of the machine code by name without modifiers, empty
    if nvdisasm is missing.
    """

    kernel: str
    registers: int
    stack_bytes: int
    spill_store_bytes: int
    spill_load_bytes: int
    barriers: int
    shared_bytes: int
    instructions: Mapping[str, int] = field(default_factory=dict)

    @property
    def instruction_count(self) -> int | None:
        """The number of machine instructions; None if nvdisasm is missing."""
        return sum(self.instructions.values()) or None


def tool(name: str) -> Path | None:
    """Return the path of a CUDA tool: of an installed PyPI package, else on PATH; None if there is none."""
    for folder in sys.path:
        found = sorted(Path(folder or ".").glob(f"nvidia/*/bin/{name}"))
        if found:
            return found[-1]
    on_path = shutil.which(name)
    return None if on_path is None else Path(on_path)


def assembler() -> tuple[Path, str]:
    """Return ptxas and its version. Raises AssemblerError if there is none."""
    path = tool("ptxas")
    if path is None:
        raise AssemblerError(f"ptxas is not installed: {INSTALL}")
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    version = _VERSION.search(said)
    return path, version[1] if version else "unknown"


def resources(ptx: str, target: str) -> dict[str, Resources]:
    """Assemble a PTX module for a target like sm_100a and return the resources of its kernels by name.

    Raises AssemblerError if ptxas is missing or rejects the module.
    """
    path, version = assembler()
    with TemporaryDirectory(prefix="emulator-ptxas-") as folder:
        source, cubin = Path(folder) / "module.ptx", Path(folder) / "module.cubin"
        source.write_text(ptx)
        command: list[str | Path] = [path, f"-arch={target}", "-v", source, "-o", cubin]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssemblerError(f"ptxas {version} rejects the PTX for {target}: {done.stderr.strip()}")
        return {found.kernel: found for found in parsed(done.stdout + done.stderr, _instructions(cubin))}


def parsed(said: str, counts: Mapping[str, Mapping[str, int]]) -> Iterator[Resources]:
    """Yield the kernels in the output of `ptxas -v`. counts: machine instructions by kernel and name."""
    kernel, of, stack = "", "", (0, 0, 0)
    for line in said.splitlines():
        if entry := _ENTRY.search(line):
            kernel, of, stack = entry[1], "", (0, 0, 0)
        elif properties := _PROPERTIES.search(line):
            of = properties[1]
        elif (held := _STACK.search(line)) and of == kernel:
            stack = int(held[1]), int(held[2]), int(held[3])
        elif (used := _USED.search(line)) and kernel:
            registers, barriers, shared = (int(each or 0) for each in used.groups())
            yield Resources(kernel, registers, *stack, barriers, shared, counts.get(kernel, {}))
            kernel = ""


def _instructions(cubin: Path) -> dict[str, dict[str, int]]:
    """Count the machine instructions of each kernel by name; nothing if nvdisasm is missing or of another version.

    The NOPs that fill the last cache line are not counted.
    """
    path = tool("nvdisasm")
    if path is None:
        return {}
    done = subprocess.run([path, "-c", cubin], capture_output=True, text=True, check=False)
    if done.returncode:
        return {}
    _, *parts = _FUNCTION.split(done.stdout)
    found = {name: Counter(_SASS.findall(text)) for name, text in zip(parts[::2], parts[1::2], strict=True)}
    return {name: {opcode: n for opcode, n in counts.items() if opcode != "NOP"} for name, counts in found.items()}
