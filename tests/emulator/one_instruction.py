"""Run one or a few PTX instructions on register values given as arrays."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from emulator.engine.code import lowered
from emulator.engine.effects import effects
from emulator.engine.registers import Placement, RegisterFile, RegisterFiles
from emulator.engine.segments import Segment
from emulator.native.compile import StepLists, runner
from emulator.ptx.parser import parse
from emulator.ptx.syntax import Reg

ALL = 0xFFFF_FFFF
_TYPES = {"p": "pred", "h": "b16", "r": "b32", "q": "b64", "o": "b128"}
_DTYPES: dict[str, Any] = {"b16": np.uint16, "b32": np.uint32, "b64": np.uint64}


class Instructions:
    """Compiled PTX whose registers are named by type: %p0 pred, %h0 b16, %r0 b32, %q0 b64."""

    def __init__(self, text: str) -> None:
        used = sorted(set(re.findall(r"%([phrqo])\d+", text)))
        declarations = "".join(f".reg .{_TYPES[stem]} %{stem}<100>;" for stem in used)
        kernel = next(
            iter(
                parse(
                    f".version 8.8\n.target sm_100a\n.visible .entry k(){{{declarations}\n{text}\n}}"
                ).kernels.values()
            )
        )
        found = effects(kernel, {})
        registers = sorted(
            {r for e in found for r in (*e.reads, *e.writes) if isinstance(r, Reg)}, key=lambda r: r.name
        )
        self._placement = Placement(registers, found, {})
        builder = lowered(Segment(found, 0), self._placement)
        steps = builder.finish(registers)
        self._bytes = self._placement.bytes + builder.code.placed(self._placement.bytes)
        self._steps = StepLists([steps])

    @property
    def names(self) -> set[str]:
        """Return the names of the registers in the text, without %."""
        return {register.name[1:] for register in self._placement.slots}

    def __call__(self, active: int = ALL, /, **values: Any) -> Mapping[str, np.ndarray]:
        """Run with these register values (arrays of 32, or numbers) in the lanes `active`; return all registers."""
        (file,) = RegisterFiles(1, self._bytes).of_warps
        slots = {register.name[1:]: slot for register, slot in self._placement.slots.items()}
        for name, value in values.items():
            self._set(file, slots[name], value)
        runner()(file.base, active, self._steps.address(0))
        return {name: self._get(file, slot) for name, slot in slots.items()}

    def _rows(self, file: RegisterFile, slot: Any) -> np.ndarray:
        rows: dict[str, np.ndarray] = {"b16": file.rows16, "b32": file.rows32, "b64": file.rows64}
        return rows[slot.type][slot.row]

    def _set(self, file: RegisterFile, slot: Any, value: Any) -> None:
        if slot.type == "pred":
            bits = np.broadcast_to(np.asarray(value, bool), 32)
            file.words[slot.offset // 4] = sum(1 << i for i in range(32) if bits[i])
            return
        array = np.asarray(value)
        if array.dtype.kind == "f":
            array = array.view(f"u{array.dtype.itemsize}")
        elif array.ndim == 0:
            array = np.asarray(int(array) % (1 << 8 * _DTYPES[slot.type]().itemsize), _DTYPES[slot.type])
        self._rows(file, slot)[:] = array.astype(_DTYPES[slot.type])

    def _get(self, file: RegisterFile, slot: Any) -> np.ndarray:
        if slot.type == "pred":
            word = file.words[slot.offset // 4]
            return np.array([word >> lane & 1 for lane in range(32)], bool)
        return self._rows(file, slot).copy()


def over(text: str, **values: Any) -> Mapping[str, np.ndarray]:
    """Run `text` over long arrays, 32 elements at a time. Lengths are padded with the last element."""
    program = Instructions(text)
    length = max(np.asarray(v).size for v in values.values())
    padded = {n: np.resize(np.asarray(v), -(-length // 32) * 32) for n, v in values.items()}
    parts = [
        program(**{n: v[i : i + 32] for n, v in padded.items()}) for i in range(0, len(next(iter(padded.values()))), 32)
    ]
    return {name: np.concatenate([p[name] for p in parts])[:length] for name in parts[0]}
