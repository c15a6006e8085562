"""Loads, stores and prefetches (ld, st, prefetch) in every state space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from ..chip import ALL_LANES, LANES, LOCAL_BASE, RANK_SHIFT, SHARED_BASE
from ..errors import Misaligned, OutOfBounds, UnknownInstruction, UnwrittenRead
from ..leniency import Leniency
from ..machine.compiled.accesses import CompiledAccesses
from ..machine.memory.shared import OFFSET_MASK, SharedMemory
from ..machine.order.access import CTA, GPU, Access
from ..machine.order.flags import Flags, observed
from ..machine.order.strong import StrongOrder, Value
from ..machine.topology import Warp
from ..ptx.syntax import Instr, Operand, Reg, Special, Vector
from .lane_values import lane_rows, per_lane
from .registry import (
    REACH,
    SCOPE,
    SEMANTICS,
    SHARED,
    Action,
    Modifiers,
    Timing,
    executes,
    if_sources_uniform,
    never_communicates,
)
from .special_registers import MEMORY

UNSHARED: Final = frozenset({"param", "param::entry", "param::func", "local", "const"})
SPACES: Final = SHARED | UNSHARED | {"global"}
TYPES: Final = frozenset(f"{kind}{bits}" for kind in "bus" for bits in (8, 16, 32, 64)) | {"f32", "f64", "b128"}
VECTORS: Final = frozenset({"v2", "v4", "v8"})
CACHE: Final = (
    frozenset({"ca", "cg", "cs", "lu", "cv", "wb", "wt"}),
    frozenset(f"L1::{p}" for p in ("evict_normal", "evict_unchanged", "evict_first", "evict_last", "no_allocate")),
    frozenset(f"L2::{p}" for p in ("evict_normal", "evict_first", "evict_last", "cache_hint")),
    frozenset({"L2::64B", "L2::128B", "L2::256B"}),
    frozenset({"L2::cache_hint"}),
    frozenset({"nc", "mmio"}),
)
REGISTER_BYTES: Final = {"pred": 1, "b8": 1, "b16": 2, "b32": 4, "b64": 8, "b128": 16}
BITS: Final = np.uint32(1) << np.arange(32, dtype=np.uint32)
STRONG: Final = frozenset({"relaxed", "acquire", "release", "acq_rel", "sc", "volatile"})


class MemoryOp:
    """The common part of memory accesses: space, element width in bytes, elements per lane, ordering.

    strong: the scope, 0 for a weak access.
    once: the memory read must not be written during the launch (.nc).
    """

    stores = once = rewrites = False
    strong = 0

    def __init__(self, ins: Instr) -> None:
        sem, scope, space, vector, kind, *_ = Modifiers(ins).pick(SEMANTICS, SCOPE, SPACES, VECTORS, TYPES, *CACHE)
        if kind is None:
            raise UnknownInstruction(ins, "no type")
        self.ins = ins
        self.space = (space or "generic").split("::")[0]
        self.own_cta = space in ("shared", "shared::cta")
        self.count = int(vector[1:]) if vector else 1
        self.signed = kind[0] == "s"
        self.width = int(kind[1:]) // 8
        _check(ins, sem, scope, space, self.count * self.width)
        if self.count == 8 and self.width != 4:
            raise UnknownInstruction(ins, f".v8 of .{kind}; allowed is .v8 of 32 bits")
        if self.width == 16:
            self.width, self.count = 8, 2
        self.bytes = self.width * self.count
        self.stores = ins.opcode == "st"
        self.once = "nc" in ins.modifiers
        self.scope = REACH.get(scope, GPU)
        self.strong = self.scope if sem in STRONG else 0
        self.acquires, self.releases = sem == "acquire", sem == "release"
        self.what = f"{ins.opcode}.{space}" if space else ins.opcode

    def access(self, warp: Warp) -> Access:
        """Return the access record of this instruction at the current time."""
        me = warp.access(self.ins, self.what)
        me.strong = self.strong
        return me

    def lanes(self, warp: Warp, part: Any) -> np.ndarray | None:
        """Return the lanes that access each address of a part, as bit masks.

        There is one mask for all active lanes, or one per address. None if the access is not by single lanes.
        """
        lanes = warp.lanes
        if lanes is None:
            return np.full(1, warp.active, np.uint32)
        bits: np.ndarray = BITS[lanes if part is None else lanes[part]]
        return bits

    def aligned(self, addresses: np.ndarray, warp: Warp) -> np.ndarray:
        """Return the addresses. Raises Misaligned unless all are multiples of the access's size."""
        if self.bytes > 1 and int(np.bitwise_or.reduce(addresses)) & (self.bytes - 1):
            bad = addresses[(addresses & (self.bytes - 1)) != 0]
            raise Misaligned(
                f"{self.what} of {self.bytes} bytes at {int(bad[0]):#x}, which is not a multiple of {self.bytes}",
                self.ins,
                warp,
            )
        return addresses

    def parts(self, warp: Warp, addresses: np.ndarray) -> list[tuple[Any, Any, np.ndarray]]:
        """Return (memory, lanes or None for all, offsets in it) for each memory that contains some of the addresses."""
        if self.space == "generic":
            return [p for space, lanes in _by_window(addresses) for p in self._within(space, warp, addresses, lanes)]
        return self._within(self.space, warp, addresses, None)

    def _within(self, space: str, warp: Warp, addresses: np.ndarray, lanes: Any) -> list[tuple[Any, Any, np.ndarray]]:
        chosen = addresses if lanes is None else addresses[lanes]
        if space == "shared":
            return self._by_cta(warp, chosen, lanes)
        if space == "local":
            return [("local", lanes, chosen & 0xFFFF_FFFF)]
        return [("global", lanes, chosen)]

    def _by_cta(self, warp: Warp, addresses: np.ndarray, lanes: Any) -> list[tuple[Any, Any, np.ndarray]]:
        addresses = addresses & 0xFFFF_FFFF
        ranks = addresses >> RANK_SHIFT
        first = int(ranks[0])
        if (ranks == first).all():
            return [(self._cta_memory(warp, first, addresses), lanes, addresses & OFFSET_MASK)]
        where = np.arange(addresses.size) if lanes is None else lanes
        return [
            (self._cta_memory(warp, r, addresses), where[ranks == r], addresses[ranks == r] & OFFSET_MASK)
            for r in np.unique(ranks).tolist()
        ]

    def _cta_memory(self, warp: Warp, rank: int, addresses: np.ndarray) -> SharedMemory:
        ctas = warp.cta.cluster.ctas
        if rank >= len(ctas) or (self.own_cta and rank != warp.cta.rank):
            raise OutOfBounds(
                f"{self.what} at {int(addresses[0]):#x}, in the window of CTA rank {rank}; "
                f"this is rank {warp.cta.rank} of a cluster of {len(ctas)}",
                self.ins,
                warp,
            )
        if rank != warp.cta.rank:
            warp.check_started(ctas[rank], self.ins, self.what)
        return ctas[rank].smem

    def checked(self, memory: SharedMemory, offsets: np.ndarray, warp: Warp) -> np.ndarray:
        """Return the offsets as indices. Raises OutOfBounds for an offset outside the CTA's window."""
        high = int(offsets.max())
        if high + self.bytes > memory.size:
            memory.check_span(high, self.bytes, self.ins, warp, self.what)
        return offsets.astype(np.intp)


def _check(ins: Instr, sem: str | None, scope: str | None, space: str | None, size: int) -> None:
    """Raise UnknownInstruction for an ld or st form of `size` bytes per lane that PTX does not have."""
    if size > (16 if space not in ("global", None) or "b128" in ins.modifiers else 32):
        raise UnknownInstruction(ins, f"{size} bytes; allowed are 16, or 32 of global memory by 4 or 8 bytes")
    if sem in STRONG and sem != "volatile" and scope is None:
        raise UnknownInstruction(ins, f".{sem} without a scope")
    if sem in STRONG and space in UNSHARED and (sem, space) != ("volatile", "local"):
        raise UnknownInstruction(ins, f".{sem} of .{space}")
    if ins.opcode == "st" and space == "const":
        raise UnknownInstruction(ins, "a store to .const")


def _by_window(addresses: np.ndarray) -> list[tuple[str, Any]]:
    high = addresses >> 32
    found = []
    for value in np.unique(high).tolist():
        space = {SHARED_BASE >> 32: "shared", LOCAL_BASE >> 32: "local"}.get(value, "global")
        found.append((space, np.flatnonzero(high == value)))
    return [(found[0][0], None)] if len(found) == 1 else found


def load(op: MemoryOp, warp: Warp, addresses: np.ndarray) -> np.ndarray:
    """Return the elements at the addresses (uint[n]) as unsigned[n, count]."""
    op.aligned(addresses, warp)
    out = None
    for memory, lanes, places in op.parts(warp, addresses):
        values = _load_part(op, warp, memory, places, lanes)
        if lanes is None:
            return values
        out = np.zeros((addresses.size, op.count), values.dtype) if out is None else out
        out[lanes] = values
    assert out is not None
    return out


def _load_part(op: MemoryOp, warp: Warp, memory: Any, places: np.ndarray, lanes: Any) -> np.ndarray:
    values: np.ndarray
    if memory == "local":
        at = _local_index(op, warp, places, lanes)
        local, written = _local(op, warp)
        if (written[at] != int.from_bytes(b"\1" * op.width)).any():
            what = f"{op.what} reads local memory at offset {int(places.min())}, which nothing wrote"
            warp.cta.launch.report(UnwrittenRead(what, op.ins, warp, level=Leniency.LOCAL_UNWRITTEN))
        values = local[at]
        return values
    if memory == "global":
        launch = warp.cta.launch
        if launch.memory.tracked and not op.rewrites:
            me, lane_bits = op.access(warp), op.lanes(warp, lanes)
            warp.cta.cluster.outside.read(places, op.bytes, me, warp.clock, lane_bits, op.once)
        values = launch.memory.load(places, op.width, op.count, op.ins, warp, op.what)
        launch.stats.global_load_bytes += places.size * op.bytes
    else:
        offsets = op.checked(memory, places, warp)
        lane_bits = op.lanes(warp, lanes)
        values = memory.load(offsets, op.width, op.count, op.access(warp), warp.clock, lane_bits, op.ins.used)
        warp.cta.launch.stats.access_shared(offsets, op.bytes)
    # Memory Consistency Model: "reductions do not form acquire patterns" (test_a_reduction_acquires_nothing).
    if op.strong:
        older: dict[int, Value] = {}
        if (order := warp.cta.launch.registry.get(StrongOrder)) is not None:
            values, older = _read_in_order(op, warp, order, memory, places, values)
        if op.ins.opcode != "red":
            _acquire(op, warp, memory, places, older)
            warp.poll(op.ins, places, values)
    return values


def _read_in_order(
    op: MemoryOp, warp: Warp, order: StrongOrder, memory: Any, places: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, dict[int, Value]]:
    """Return the values of a strong read, and by place those that a newer write had replaced."""
    me = op.access(warp)
    found = {at: order.read(me, memory, at, values[i], op.rewrites) for i, at in enumerate(places.tolist())}
    older = {at: value for at, value in found.items() if value is not None}
    if older:
        values = np.array(
            [older[at].row if at in older else row for at, row in zip(places.tolist(), values, strict=True)]
        )
    return values, older


def store(op: MemoryOp, warp: Warp, addresses: np.ndarray, values: np.ndarray) -> None:
    """Write unsigned[n, count] `values` at the addresses (uint[n])."""
    op.aligned(addresses, warp)
    for memory, lanes, places in op.parts(warp, addresses):
        chosen = values if lanes is None else values[lanes]
        if memory == "local":
            at = _local_index(op, warp, places, lanes)
            local, written = _local(op, warp)
            local[at], written[at] = chosen, int.from_bytes(b"\1" * op.width)
            continue
        if op.strong:
            warp.yielded |= warp.cta.cluster.pauses
            order: StrongOrder | None = warp.cta.launch.registry.get(StrongOrder)
            if order is None:
                _release(op, warp, _flags(warp, memory), memory, places)
            else:
                chosen = _write_in_order(op, warp, order, memory, places, chosen)
        if memory == "global":
            launch = warp.cta.launch
            warp.cta.cluster.outside.write(places, chosen, op.access(warp), warp.clock, op.lanes(warp, lanes))
            launch.memory.store(places, chosen, op.ins, warp, op.what)
            launch.stats.global_store_bytes += places.size * op.bytes
        else:
            offsets = op.checked(memory, places, warp)
            memory.store(offsets, chosen, op.access(warp), warp.clock, op.lanes(warp, lanes))
            warp.cta.launch.stats.access_shared(offsets, op.bytes)


def _write_in_order(
    op: MemoryOp, warp: Warp, order: StrongOrder, memory: Any, places: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Return memory after a strong write: what it held before, where another write comes after this one."""
    me = op.access(warp)
    if memory == "global":
        old = warp.cta.launch.memory.load(places, op.width, op.count, op.ins, warp, op.what)
    else:
        old = memory.views[op.width][(op.checked(memory, places, warp) // op.width)[:, None] + np.arange(op.count)]
    rows = zip(places.tolist(), old, values, strict=True)
    last = np.array([order.write(me, memory, at, was, row, op.rewrites) for at, was, row in rows])
    for those, flags in ((last, _flags(warp, memory)), (~last, Flags())):
        if those.any():
            _release(op, warp, flags, memory, places[those])
            order.released(warp, memory, places[those].tolist(), flags)
    warp.tick()  # later accesses are not before this one
    return np.where(last[:, None], values, old)


def _release(op: MemoryOp, warp: Warp, flags: Flags, memory: Any, places: np.ndarray) -> None:
    """Attach the warp's clock to the values that it is about to write; for a relaxed write, the clock of its fences."""
    if not flags and not op.releases and warp.fenced[CTA] is None:
        return
    written = {(id(memory), place) for place in places.tolist()}
    # Release pattern: a plain strong write ends the release sequence, a read-modify-write continues it.
    if not op.rewrites:
        flags.overwrite(written, warp)
    if op.releases:
        flags.release(written, warp, warp.clock, op.scope)
        warp.tick()
    else:
        for reach in range(CTA, op.scope + 1):
            if (fenced := warp.fenced[reach]) is not None:
                flags.release(written, warp, fenced, reach)


def _acquire(op: MemoryOp, warp: Warp, memory: Any, places: np.ndarray, older: Mapping[int, Value]) -> None:
    """Acquire the clocks attached to the values read at `places`: now, or at the next acquiring fence."""
    flags = _flags(warp, memory)
    for place in set(places.tolist()) if flags else ():
        released = older[place].released if place in older else flags.released((id(memory), place))
        for reach, seen in observed(released, warp, op.scope):
            if op.acquires:
                warp.acquire(seen)
            else:
                warp.observe_relaxed(seen, reach)


def _flags(warp: Warp, memory: Any) -> Flags:
    return warp.cta.cluster.outside.flags if memory == "global" else warp.cta.cluster.flags


def _local(op: MemoryOp, warp: Warp) -> tuple[np.ndarray, np.ndarray]:
    """Return each lane's local memory in elements of the access's width, and a mask of the written bytes.

    Local memory is initially poisoned.
    """
    if warp.local is None:
        size = LANES, -(-warp.cta.launch.kernel.local_bytes // 8) * 8
        warp.local = np.full(size, 0xFF, np.uint8), np.zeros(size, np.uint8)
    values, written = warp.local
    return values.view(f"u{op.width}"), written.view(f"u{op.width}")


def _local_index(op: MemoryOp, warp: Warp, places: np.ndarray, lanes: Any) -> Any:
    limit = warp.cta.launch.kernel.local_bytes
    if int(places.max()) + op.bytes > limit:
        raise OutOfBounds(f"{op.what} at local offset {int(places.max())}, of {limit} bytes", op.ins, warp)
    assert warp.lanes is not None
    rows = warp.lanes if lanes is None else warp.lanes[lanes]
    return rows[:, None], (places // op.width).astype(np.intp)[:, None] + np.arange(op.count)


def active_addresses(warp: Warp, mask: np.ndarray | None, address: Any) -> np.ndarray:
    """Return the active lanes' addresses."""
    addresses: np.ndarray = address if isinstance(address, np.ndarray) else np.full(32, address, np.uint64)
    warp.lanes = np.arange(32) if mask is None else np.flatnonzero(mask)
    return addresses if mask is None else addresses[mask]


def uniform_address(warp: Warp, mask: np.ndarray | None, address: Any) -> np.ndarray:
    """Return the address that all active lanes share."""
    warp.lanes = None
    warp.active = ALL_LANES if mask is None else int(BITS[mask].sum())
    return np.array([address], np.uint64)


def strong_outside_cluster(ins: Instr) -> bool:
    """Return True if clusters may communicate by an ld or st: it is strong and not of shared memory."""
    return outside_cluster(ins) and not (STRONG | {"mmio"}).isdisjoint(ins.modifiers)


def outside_cluster(ins: Instr) -> bool:
    """Return True if an access may be of memory that other clusters share."""
    return not any(modifier.startswith("shared") for modifier in ins.modifiers)


def compiled_memory(ins: Instr) -> tuple[Special, ...]:
    """Return the implicit registers of a JIT-compiled ld or st. A generic address is assumed to be global."""
    return (MEMORY,) if UNSHARED.isdisjoint(ins.modifiers) else ()


def if_not_local(ins: Instr) -> Sequence[Operand] | None:
    """Return the operands that decide uniformity of a load.

    Local memory differs between lanes at the same address, and a generic address may be local.
    """
    one_for_all = ("global", "shared", "param", "const")
    return if_sources_uniform(ins) if any(m.startswith(one_for_all) for m in ins.modifiers) else None


@executes(
    "ld",
    dst=1,
    timing=Timing.MEMORY,
    uniform=if_not_local,
    implicit_reads=compiled_memory,
    communicates=strong_outside_cluster,
)
def _ld(ins: Instr) -> Action:
    op = MemoryOp(ins)
    target = ins.operands[0]
    registers = target.items if isinstance(target, Vector) else (target,)
    widths = [REGISTER_BYTES[r.type] if isinstance(r, Reg) else op.width for r in registers]
    wide = any(w == 16 for w in widths)
    if wide and len(widths) > 1:
        raise UnknownInstruction(ins, "vectors of .b128 are not supported")
    by_lane = op.space in ("local", "generic")
    if op.space == "param":
        return parameter_load(op, widths)

    def run(warp: Warp, mask: Any, address: Any, _policy: Any = None) -> Any:
        if not by_lane and not isinstance(address, np.ndarray):
            values = load(op, warp, uniform_address(warp, mask, address))
            if wide:
                return np.repeat(values.T, 32, axis=1)
            return _flat([int(extended(op, values[0, i : i + 1], w)[0]) for i, w in enumerate(widths)])
        return _of_lanes(op, mask, load(op, warp, active_addresses(warp, mask, address)), widths)

    return run


def _of_lanes(op: MemoryOp, mask: np.ndarray | None, values: np.ndarray, widths: Sequence[int]) -> Any:
    """Return the registers that unsigned[n, count] of the active lanes become. widths: of the registers, in bytes."""
    if mask is not None:
        full = np.zeros((32, op.count), values.dtype)
        full[mask] = values
        values = full
    columns = np.ascontiguousarray(values.T)
    if 16 in widths or all(w == op.width for w in widths):
        return columns if op.count > 1 else columns[0]
    return _flat([extended(op, columns[i], w) for i, w in enumerate(widths)])


def _flat(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else tuple(values)


def extended(op: MemoryOp, values: np.ndarray, width: int) -> np.ndarray:
    """Return values as unsigned integers of a register's width, sign-extended if the type is signed."""
    if width == op.width:
        return np.ascontiguousarray(values)
    if op.signed:
        return values.view(f"i{op.width}").astype(f"i{width}").view(f"u{width}")
    return values.astype(f"u{width}")


def parameter_load(op: MemoryOp, widths: list[int]) -> Action:
    """Return the action of an ld.param whose address is in a register."""

    def values_at(warp: Warp, offset: int) -> np.ndarray:
        raw = warp.cta.launch.param_bytes[offset : offset + op.bytes]
        if len(raw) < op.bytes:
            raise OutOfBounds(f"ld.param at {offset}, {op.bytes} bytes: no such parameter", op.ins, warp)
        return np.frombuffer(raw, f"u{op.width}")

    def run(warp: Warp, mask: Any, address: Any) -> Any:
        if isinstance(address, np.ndarray):
            rows = [values_at(warp, offset) for offset in active_addresses(warp, mask, address).tolist()]
            return _of_lanes(op, mask, np.array(rows), widths)
        values = values_at(warp, int(address))
        return _flat([int(extended(op, values[i : i + 1], w)[0]) for i, w in enumerate(widths)])

    return run


@executes("st", timing=Timing.MEMORY, implicit_reads=compiled_memory, communicates=strong_outside_cluster)
def _st(ins: Instr) -> Action:
    op = MemoryOp(ins)
    dtype = np.dtype(f"u{op.width}")

    def run(warp: Warp, mask: Any, address: Any, value: Any, _policy: Any = None) -> None:
        if op.releases:
            warp.complete_used_loads(ins)
        if not by_lane and not isinstance(address, np.ndarray) and not isinstance(value, np.ndarray):
            addresses = uniform_address(warp, mask, address)
            items = value if isinstance(value, tuple) else (value,)
            values = np.array([[v & low for v in items]], dtype)
        else:
            addresses = active_addresses(warp, mask, address)
            values = lane_rows(value, op.count, dtype)
            if mask is not None:
                values = values[mask]
        store(op, warp, addresses, values)

    by_lane = op.space in ("local", "generic")
    low = (1 << 8 * op.width) - 1
    return run


def recording(run: Action, ins: Instr, number: int, uniform: bool) -> Action:
    """Wrap the handler `run` of an ld or st that is also JIT-compiled.

    Every access that the handler performs is one that the compiled code may perform later.
    """
    op = MemoryOp(ins)

    def allow(warp: Warp, mask: Any, address: Any, *values: Any) -> Any:
        if op.stores:
            warp.stored[number] |= ALL_LANES if mask is None else int(BITS[mask].sum())
        answer = run(warp, mask, address, *values)
        compiled: CompiledAccesses = warp.cta.launch.registry[CompiledAccesses]
        active = np.zeros(1, np.intp) if uniform else np.arange(32) if mask is None else np.flatnonzero(mask)
        addresses = np.full(1, address) if uniform else per_lane(address, np.uint64)[active]
        if op.space == "shared":
            compiled.allow_shared(number, warp, active, addresses, op.bytes, op.stores, not op.own_cta)
        else:
            compiled.allow(number, addresses, op.bytes, op.stores)
        return answer

    return allow


@executes("prefetch", "prefetchu", communicates=never_communicates)
def _prefetch(ins: Instr) -> Action:
    Modifiers(ins).pick(SPACES, {"L1", "L2", "tensormap", "L2::evict_last", "L2::evict_normal"})
    return lambda warp, mask, *_operands: None
