"""Atomic read-modify-write of global and shared memory (atom, red). Lanes are processed in order."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..chip import LOCAL_BASE
from ..errors import UnknownInstruction
from ..machine.formats.tensormap import reduced
from ..machine.order.access import GPU
from ..machine.topology import Warp
from ..ptx.syntax import Instr, Reg
from .lane_values import per_lane
from .ld_st import REGISTER_BYTES, MemoryOp, active_addresses, load, outside_cluster, store
from .registry import CACHE_HINT, REACH, SCOPE, SHARED, Action, Modifiers, Timing, executes

OPERATIONS: Final = frozenset({"add", "min", "max", "and", "or", "xor", "inc", "dec", "exch", "cas"})
DTYPES: Final = {
    "u32": "u4", "s32": "i4", "b32": "u4", "u64": "u8", "s64": "i8", "b64": "u8", "b16": "u2", "u16": "u2",
    "f32": "f4", "f64": "f8", "f16": "f2", "f16x2": "f2", "bf16": "bf16", "bf16x2": "bf16",
    "b128": "u8",
}  # fmt: skip
ORDERS: Final = {"atom": ("relaxed", "acquire", "release", "acq_rel"), "red": ("relaxed", "release")}
PAIRS: Final = frozenset({"f16x2", "bf16x2"})
HALVES: Final = frozenset({"f16", "bf16"}) | PAIRS
ALLOWED: Final = {
    "add": frozenset({"u32", "s32", "u64", "f32", "f64"}) | HALVES,
    **dict.fromkeys(("min", "max"), frozenset({"u32", "s32", "u64", "s64"})),
    **dict.fromkeys(("inc", "dec"), frozenset({"u32"})),
    **dict.fromkeys(("and", "or", "xor"), frozenset({"b32", "b64"})),
    "exch": frozenset({"b32", "b64", "b128"}),
    "cas": frozenset({"b16", "b32", "b64", "b128"}),
}
"""The types of each operation (PTX ISA 9.1, 9.7.13.14 and 9.7.13.15)."""
VECTORS: Final = {
    "f32": ("v2", "v4"),
    **dict.fromkeys(PAIRS, ("v2", "v4")),
    **dict.fromkeys(HALVES - PAIRS, ("v2", "v4", "v8")),
}
"""The vector forms of each type, on global memory only: add for all types, min and max for the half types."""


class Atomic(MemoryOp):
    """A read-modify-write of `count` elements per lane of numpy type `dtype`, combined by `operation`."""

    def __init__(self, ins: Instr) -> None:
        sem, scope, space, operation, exact, vector, kind, _, _ = Modifiers(ins).pick(
            ORDERS[ins.opcode],
            SCOPE,
            SHARED | {"global"},
            OPERATIONS,
            {"noftz"},
            {"v2", "v4", "v8"},
            DTYPES,
            CACHE_HINT,
            {"async"},
        )
        if kind is None or operation is None:
            raise UnknownInstruction(ins, "no type or no operation")
        if (exact is not None) != (kind in HALVES):
            raise UnknownInstruction(ins, f".noftz is required for, and only for, {', '.join(sorted(HALVES))}")
        if not _exists(operation, kind, vector, space) or (ins.opcode == "red" and operation in ("exch", "cas")):
            raise UnknownInstruction(ins, f".{operation}{f'.{vector}' if vector else ''}.{kind}; allowed is {ALLOWED}")
        self.ins, self.operation, self.dtype = ins, operation, DTYPES[kind]
        self.space = (space or "generic").split("::")[0]
        self.own_cta = space in ("shared", "shared::cta")
        self.width = 2 if self.dtype == "bf16" else np.dtype(self.dtype).itemsize
        self.pairs = 2 if kind in PAIRS else 1
        self.wide = kind == "b128"
        self.registers = 2 if self.wide else int(vector[1:]) if vector else 1
        self.count = self.pairs * self.registers
        self.bytes = self.width * self.count
        self.signed, self.rewrites = False, True
        self.flushes = kind == "f32" and operation == "add" and self.space in ("global", "generic")
        self.scope = self.strong = REACH.get(scope, GPU)
        self.acquires, self.releases = sem in ("acquire", "acq_rel"), sem in ("release", "acq_rel")
        self.what = f"{ins.opcode}.{space}" if space else ins.opcode

    def new_bits(self, old: np.ndarray, operands: list[np.ndarray]) -> np.ndarray:
        """Return the new bits from the old ones as unsigned[n, count]."""
        if self.operation == "exch":
            return operands[0]
        if self.operation == "cas":
            same = (old == operands[0]).all(1, keepdims=True) if self.wide else old == operands[0]
            return np.where(same, operands[1], old)
        return reduced(old, operands[0], self.dtype, self.operation)

    def new_bits_at(self, addresses: np.ndarray, old: np.ndarray, operands: list[np.ndarray]) -> np.ndarray:
        """Return `new_bits`. In global memory an f32 add flushes subnormal inputs and results to zero."""
        new = self.new_bits(old, operands)
        if not self.flushes:
            return new
        flushed = _flushed(self.new_bits(_flushed(old), [_flushed(operands[0])]))
        return np.where((addresses < LOCAL_BASE)[:, None], flushed, new)


def _exists(operation: str, kind: str, vector: str | None, space: str | None) -> bool:
    if vector is None:
        return kind in ALLOWED[operation]
    operations = ("add",) if kind == "f32" else ("add", "min", "max")
    return operation in operations and vector in VECTORS.get(kind, ()) and space in ("global", None)


@executes("atom", dst=1, timing=Timing.MEMORY, communicates=outside_cluster)
def _atom(ins: Instr) -> Action:
    return _run(Atomic(ins), ins, 1)


@executes("red", timing=Timing.MEMORY, communicates=outside_cluster)
def _red(ins: Instr) -> Action:
    return _run(Atomic(ins), ins, 0)


def _run(op: Atomic, ins: Instr, results: int) -> Action:
    def run(warp: Warp, mask: Any, address: Any, *values: Any) -> Any:
        needed = 2 if op.operation == "cas" else 1
        operands = [operand_bits(op, v, mask) for v in values[:needed]]
        addresses = active_addresses(warp, mask, address)
        if op.releases:
            warp.complete_used_loads(ins)
        old = _apply(op, warp, addresses, operands)
        return results_of(op, ins, old, mask) if results else None

    return run


def _apply(op: Atomic, warp: Warp, addresses: np.ndarray, operands: list[np.ndarray]) -> np.ndarray:
    """Perform the operation of each active lane, in lane order at each address. Return what each lane replaced.

    Each address is loaded and stored once, for its last lane. But if an address gets back the bits that it had, every
    lane stores, because a racing load could see the bits between.
    """
    groups, lanes = conflict_free_groups(addresses), warp.lanes
    assert lanes is not None
    shared = addresses[:, None] == addresses
    last = np.flatnonzero(~np.triu(shared, 1).any(1))
    at = shared[:, last].argmax(1)
    warp.lanes = lanes[last]
    before = load(op, warp, addresses[last])
    old: np.ndarray = before[at]
    now, new = before.copy(), old.copy()
    for rows in groups:
        old[rows] = now[at[rows]]
        now[at[rows]] = new[rows] = op.new_bits_at(addresses[rows], old[rows], [o[rows] for o in operands])
    changed, returned = (new != old).any(1), (now == before).all(1)
    if not (changed & returned[at]).any():
        store(op, warp, addresses[last], now)
        for rows in groups[1:]:
            _count_again(op, warp, addresses[rows])
        return old
    for number, rows in enumerate(groups):
        warp.lanes = lanes[rows]
        if number:  # the first lane of each address has loaded
            load(op, warp, addresses[rows])
        store(op, warp, addresses[rows], new[rows])
    return old


def _count_again(op: Atomic, warp: Warp, addresses: np.ndarray) -> None:
    """Count the load and the store of lanes that follow others at their addresses."""
    stats = warp.cta.launch.stats
    for memory, _, places in op.parts(warp, addresses):
        if memory == "global":
            stats.global_load_bytes += places.size * op.bytes
            stats.global_store_bytes += places.size * op.bytes
        elif memory != "local":
            for _ in range(2):
                stats.access_shared(op.checked(memory, places, warp), op.bytes)


def _flushed(bits: np.ndarray) -> np.ndarray:
    """Return f32 bits with subnormals replaced by zeros of their sign."""
    return np.where(bits & 0x7F80_0000, bits, bits & 0x8000_0000)


def conflict_free_groups(addresses: np.ndarray) -> list[np.ndarray]:
    """Split the lanes into as few groups without a common address as possible, in lane order for each address."""
    before = np.tril(addresses[:, None] == addresses, -1).sum(1)  # the number of earlier lanes with the same address
    return [np.flatnonzero(before == number) for number in range(before.max() + 1)]


def operand_bits(op: Atomic, value: Any, mask: Any) -> np.ndarray:
    """Return an operand as unsigned[n, count] of the element's width."""
    registers = np.uint32 if op.width * op.pairs == 4 else np.dtype(f"u{op.width * op.pairs}")
    if isinstance(value, tuple):
        value = np.stack([per_lane(v, registers) for v in value])
    rows = per_lane(value, registers).astype(registers, copy=False).reshape(-1, 32)
    wide = np.ascontiguousarray(rows.T).view(f"u{op.width}")
    return wide if mask is None else wide[mask]


def results_of(op: Atomic, ins: Instr, old: np.ndarray, mask: Any) -> Any:
    target = ins.operands[0]
    width = REGISTER_BYTES[target.type] if isinstance(target, Reg) and not op.wide else op.width * op.pairs
    packed = np.ascontiguousarray(old).view(f"u{op.width * op.pairs}").astype(f"u{width}")
    full = np.zeros((32, op.registers), packed.dtype)
    full[slice(None) if mask is None else mask] = packed
    return full[:, 0] if op.registers == 1 else np.ascontiguousarray(full.T)


@executes("multimem.ld_reduce", "multimem.st", "multimem.red")
def _multimem(ins: Instr) -> Action:
    """Reject multi-GPU memory."""
    raise UnknownInstruction(ins, "multimem needs several GPUs; one is emulated")
