"""Correct programs and their broken twins: data for the emulator's tests, and a suite that other tools can run.

python -m tests.emulator.twins FOLDER
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent / "pairs"
RNG = np.random.default_rng(0)
A, B = RNG.integers(-4, 5, (128, 16)), RNG.integers(-4, 5, (32, 16))
TALL = RNG.integers(-4, 5, (256, 16))
WORDS = np.arange(768, dtype=np.uint32) * 7


def bf16(values: np.ndarray) -> np.ndarray:
    """Return integers that bf16 represents exactly, as its bits."""
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def core_matrices(values: np.ndarray) -> np.ndarray:
    """Rearrange [rows, k] into 8x8 core matrices: [rows / 8, k / 8, 8, 8]."""
    rows, k = values.shape
    return np.ascontiguousarray(bf16(values).reshape(rows // 8, 8, k // 8, 8).transpose(0, 2, 1, 3))


@dataclass(frozen=True)
class Program:
    """A correct program: its threads, its inputs, the expected value of its last argument, the CTAs of its cluster."""

    threads: int
    inputs: tuple[np.ndarray, ...]
    expected: np.ndarray
    ctas: int = 1


def staged_result() -> np.ndarray:
    first = (A @ B.T).astype(np.float32)[:, :16]
    return (first @ B.T.astype(np.float32))[:, :16]


def chained_result() -> np.ndarray:
    return ((A[:64] @ B.T)[:, :16] @ B[::-1].T).astype(np.float32)


PROGRAMS = {
    "gemm": Program(192, (core_matrices(A), core_matrices(B)), (A @ B.T).astype(np.float32)),
    "staged": Program(160, (bf16(A), bf16(B)), staged_result()),
    "warpgroup": Program(160, (core_matrices(A[:64]), core_matrices(B), core_matrices(B[::-1])), chained_result()),
    "ring": Program(96, (WORDS,), WORDS + 1),
    "exchange": Program(160, (WORDS[:128].copy(),), WORDS[127::-1].copy()),
    "elected": Program(64, (WORDS[:192].copy(),), WORDS[:192].reshape(-1, 2)[:, ::-1].reshape(-1) + 1),
    "elected_tensor": Program(160, (WORDS[:32].copy(),), WORDS[:32].copy()),
    "registers": Program(256, (WORDS[:256].copy(),), WORDS[:256] + 1),
    "steal": Program(32, (WORDS[:32].copy(),), WORDS[:32] + 1),
    "pair": Program(192, (core_matrices(TALL), core_matrices(B)), (TALL @ B.T).astype(np.float32), 2),
    "send": Program(32, (WORDS[:64].copy(),), 4 * WORDS[:64].reshape(2, 32)[::-1], 2),
    "multicast": Program(64, (WORDS[:384].copy(),), np.stack([WORDS[:384], WORDS[:384] + 1]), 2),
}


@dataclass(frozen=True)
class Twin:
    """A program with one line changed, and the required report: see twins.toml."""

    kind: str
    name: str
    program: str
    line: str
    error: str
    at: str = ""
    says: tuple[str, ...] = ()
    instead: str = ""
    level: str = "fault"
    then: str = ""

    def text(self) -> str:
        lines = (HERE / f"{self.program}.ptx").read_text().splitlines()
        lines[line_of(self.program, self.line) - 1] = self.instead
        return "\n".join(lines)

    def wanted(self) -> tuple[str, ...]:
        """Return `says` with marks replaced by their PTX lines."""

        def numbered(found: re.Match[str]) -> str:
            return f"PTX line {line_of(self.program, found[1])}"

        return tuple(re.sub(r"@([a-z0-9 ]+)", numbered, words) for words in self.says)


def line_of(program: str, mark: str) -> int:
    lines = (HERE / f"{program}.ptx").read_text().splitlines()
    (found,) = [i for i, line in enumerate(lines, 1) if line.endswith(f"// @{mark}")]
    return found


TWINS = tuple(Twin(**entry) for entry in tomllib.loads((HERE / "twins.toml").read_text())["twin"])


@dataclass(frozen=True)
class LaunchPair:
    """A pair of launches.cu, of which the program runs one twin. expect: the class of report that the other has."""

    kind: str
    name: str
    expect: str


LAUNCHES = HERE / "launches.cu"
_PAIR = r'\{"([^"]+)", "([^"]+)", "(\w+)", \['
LAUNCH_PAIRS = tuple(LaunchPair(*found) for found in re.findall(_PAIR, LAUNCHES.read_text()))


def export(folder: Path) -> None:
    """Write the programs to `safe`, their twins to `hazardous`, inputs and expected outputs to `data`, and index.json.

    The entry of a file has its launch, the files of its arguments in order, and for a twin its kind, the classes of
    report that the emulator gives and the line of it. That line ends with a comment that says so. launches.cu has its
    pairs in one program: an entry has the arguments of a run.
    """
    for part in ("safe", "hazardous", "data"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    index = list[dict[str, object]]()
    for name, program in PROGRAMS.items():
        arrays = {f"data/{name}.{i}.bin": array for i, array in enumerate((*program.inputs, program.expected))}
        for file, array in arrays.items():
            (folder / file).write_bytes(np.ascontiguousarray(array).tobytes())
        *inputs, expected = arrays
        launch = {"entry": name, "block": program.threads, "grid": program.ctas, "cluster": program.ctas}
        files = {**launch, "inputs": inputs, "expected": expected}
        (folder / f"safe/{name}.ptx").write_text((HERE / f"{name}.ptx").read_text())
        index.append({"file": f"safe/{name}.ptx", **files})
        for twin in (twin for twin in TWINS if twin.program == name):
            lines = twin.text().splitlines()
            line = line_of(name, twin.at or twin.line)
            lines[line - 1] += f"  // expect: {twin.error.replace(' ', ' or ')}"
            file = f"hazardous/{name}-{re.sub(r'[^a-z0-9]+', '-', twin.name.lower()).strip('-')}.ptx"
            (folder / file).write_text("\n".join(lines) + "\n")
            said = {key: asdict(twin)[key] for key in ("kind", "name", "level")}
            index.append({"file": file, **files, **said, "expect": twin.error.split(), "line": line})
    (folder / LAUNCHES.name).write_text(LAUNCHES.read_text())
    for pair in LAUNCH_PAIRS:
        index.append({"file": LAUNCHES.name, "arguments": [pair.name, "safe"]})
        said = {"kind": pair.kind, "name": pair.name, "expect": [pair.expect]}
        index.append({"file": LAUNCHES.name, "arguments": [pair.name, "hazardous"], **said})
    (folder / "index.json").write_text(json.dumps(index, indent=1) + "\n")


if __name__ == "__main__":
    export(Path(sys.argv[1]))
