"""Tensor maps that a kernel modifies (tensormap.*), and the fences that make the change visible to TMA."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from ..chip import SHARED_BASE, WINDOW_BYTES
from ..errors import DataRace, DescriptorError, Misaligned, MissingProxyFence, MissingWait, UnknownInstruction, place
from ..leniency import Leniency
from ..machine.formats.tensormap import FIELDS, INDEXED, LIVE_WORDS, MAP_BYTES, replaced
from ..machine.launch.globalmem import host_bytes
from ..machine.order.access import Access
from ..machine.order.global_access import GlobalAccess
from ..machine.order.operations import EarlierAccess
from ..machine.topology import Warp
from ..ptx.syntax import Instr
from .lane_values import active_lanes, of_lane, same
from .registry import SCOPE, Action, Modifiers, executes, performs

LIVE_BYTES: Final = 8 * LIVE_WORDS
REPLACEABLE: Final = frozenset({*FIELDS, *INDEXED, "elemtype"})
"""The fields that `tensormap.replace` changes."""
CHANGING: Final = frozenset({"tensormap.replace", "tensormap.cp_fenceproxy"})


@executes("tensormap.replace")
def _replace(ins: Instr) -> Action:
    _, field, space, _, _ = Modifiers(ins).pick(
        {"tile"}, REPLACEABLE, {"global", "shared::cta"}, {"b1024"}, {"b32", "b64"}
    )
    if field is None:
        raise UnknownInstruction(ins, "missing field")

    def run(warp: Warp, mask: Any, address: Any, *values: Any) -> None:
        for lane in active_lanes(mask):
            at = of_lane(address, lane)
            shared = 0 <= at - SHARED_BASE < WINDOW_BYTES if space is None else space != "global"
            raw = _shared_map(ins, warp, at) if shared else _global_map(ins, warp, at)
            replace_field(ins, warp, lane, field, raw, values)
            if not shared:
                _changed(ins, warp, at)

    return run


def replace_field(ins: Instr, warp: Any, lane: int, field: str, raw: np.ndarray, values: Sequence[Any]) -> None:
    """Change a field of the map whose bytes are `raw`, as a lane of tensormap.replace does.

    values: the operands after the address. Raises DescriptorError.
    """
    index = of_lane(values[0], lane) if field in INDEXED else 0
    try:
        raw[:] = np.frombuffer(replaced(raw.tobytes(), field, of_lane(values[-1], lane), index), np.uint8)
    except ValueError as why:
        raise DescriptorError(f"{ins.opcode}: {why}", ins, warp) from None


def _shared_map(ins: Instr, warp: Warp, address: int, write: bool = True) -> np.ndarray:
    """Return the 128 bytes of a map in this CTA's shared memory, checked."""
    smem = warp.cta.smem
    offset = smem.local_offset(address, ins, warp, ins.opcode)
    if offset % MAP_BYTES:
        raise DescriptorError(f"{ins.opcode}: a map at {address:#x}, no multiple of {MAP_BYTES}", ins, warp)
    smem.check_span(offset, MAP_BYTES, ins, warp, ins.opcode)
    span = smem.span(offset, LIVE_BYTES)
    smem.shadow.read(span, warp.access(ins, ins.opcode), warp.clock)
    if write:
        smem.shadow.write(span, warp.access(ins, ins.opcode), warp.clock)
    return smem.bytes[offset : offset + MAP_BYTES]


def _global_map(ins: Instr, warp: Warp, address: int) -> np.ndarray:
    if address % 64:
        raise Misaligned(f"{ins.opcode}: a map at {address:#x}, no multiple of 64", ins, warp)
    warp.cta.launch.memory.writable(address, address + MAP_BYTES, ins, warp, f"the map of {ins.opcode}")
    return host_bytes(address, MAP_BYTES)


# visibility to TMA ---------------------------------------------------------------------------------------------------


def _changed(ins: Instr, warp: Warp, address: int) -> None:
    """Record a change of the map at `address`, which must be released and then acquired before use.

    Kept are the last change and changes by other warps with the same result.
    """
    _check_unused(ins, warp, address)
    warp.cta.cluster.outside.untracked = True
    now, maps = _held(address), warp.cta.launch.registry.setdefault("changed maps", {})
    alike = [(held, made) for held, made in maps.get(address, ()) if held == now and made.warp is not warp]
    maps[address] = [*alike, (now, GlobalAccess.of(warp.access(ins, ins.opcode)))]


def record_use(warp: Warp, address: int, uses: Iterable[Access]) -> None:
    """Record TMA operations that read the map at `address` until they complete, if the kernel changes maps."""
    launch = warp.cta.launch
    changes: bool | None = launch.registry.get("kernel changes maps")
    if changes is None:
        changes = any(instr.opcode in CHANGING for instr in launch.kernel.instrs)
        launch.registry["kernel changes maps"] = changes
    if changes:
        _uses(warp, address).extend(uses)


def _check_unused(ins: Instr, warp: Warp, address: int) -> None:
    """Report a change of a map that a TMA operation of the cluster may still read."""
    uses = _uses(warp, address)
    flying = [use for use in uses if not use.seen_by(warp.clock)]
    for use in flying[:1]:
        what = f"{ins.opcode} changes the tensor map at {address:#x}, which {use.what} may still read"
        lines = (("used at", f"{place(use.instr, use.warp)}  (by {use.warp})"), ("missing", use.via.missing(use, use)))
        warp.cta.launch.report(MissingWait(what, ins, warp, lines))
    uses[:] = flying


def _uses(warp: Warp, address: int) -> list[Access]:
    """Return the recorded uses of a map by the warp's cluster."""
    uses: list[Access] = warp.cta.launch.registry.setdefault(("map uses", warp.cta.cluster_id, address), [])
    return uses


def _changes(warp: Warp) -> Mapping[int, Sequence[tuple[bytes, Access]]]:
    """Return the changed maps of the launch: by address, (current bytes, access) of each change."""
    changes: Mapping[int, Sequence[tuple[bytes, Access]]] = warp.cta.launch.registry.get("changed maps", {})
    return changes


def check_acquired(ins: Instr, warp: Warp, address: int) -> None:
    """Report a modified map whose current bytes were not released, or not acquired by this CTA before this use.

    TMA could read the old map. The bytes decide: in NVIDIA's programs several warps make the same change, some after
    another warp's acquire.
    """
    if warp.cta.launch.surroundings is not None and not _is_parameter(warp, address):
        at = np.array([address], np.uint64)
        warp.cta.cluster.outside.read(at, LIVE_BYTES, warp.access(ins, f"the tensor map of {ins.opcode}"), warp.clock)
    changes = _changes(warp).get(address)
    if changes is None:
        _check_stored(ins, warp, address)
        return
    (_, change), now = changes[-1], _held(address)
    released = (address, now) in _released(warp)
    if released and any(held == now and _known(a, warp) for held, a in warp.cta.maps.get(address, ())):
        return
    if released:
        missing = f"acquire of it after the change, before this in {warp}"
    else:
        missing = f"release after the change in {change.warp}, before it is acquired"
    fault = MissingProxyFence(
        f"{ins.opcode} uses the tensor map at {address:#x}, which the kernel changed",
        ins,
        warp,
        (
            ("changed at", f"{place(change.instr, change.warp)}  (by {change.warp})"),
            ("missing", f"fence.proxy.tensormap::generic.{missing}"),
        ),
    )
    warp.cta.launch.report(fault)


def _check_stored(ins: Instr, warp: Warp, address: int) -> None:
    """Report a map that ordinary stores of the launch wrote, if no fence of this CTA acquired it after them."""
    stored = _stored(warp, address)
    if stored is None:
        _check_fenced(ins, warp, address)
        return
    if any(held == _held(address) for held, _ in warp.cta.maps.get(address, ())):
        return
    what = f"{ins.opcode} uses the tensor map at {address:#x}, which the kernel stored"
    missing = "fence.proxy.tensormap::generic.release after the store, and .acquire of the map in this CTA"
    lines = (("stored at", f"{place(stored.instr, stored.warp)}  (by {stored.warp})"), ("missing", missing))
    warp.cta.launch.report(MissingProxyFence(what, ins, warp, lines))


def _check_fenced(ins: Instr, warp: Warp, address: int) -> None:
    """Report a map that earlier work wrote into global memory, if no fence of this CTA acquired it: formal."""
    launch = warp.cta.launch
    if any(_known(fence, warp) for fence in _fences(warp, address)):
        return
    if _is_parameter(warp, address) or any(address in constant for constant in launch.constants):
        return
    what = f"{ins.opcode} uses the tensor map at {address:#x}, which a launch, a copy or the host wrote before"
    missing = ("missing", f"fence.proxy.tensormap::generic.acquire of it in this CTA, before PTX line {ins.line}")
    launch.report(MissingProxyFence(what, ins, warp, (missing,), Leniency.MAP_OF_EARLIER_WORK))


def _fences(warp: Warp, address: int) -> list[Access]:
    """Return the acquires of a map by the warp's CTA."""
    fences: list[Access] = warp.cta.launch.registry.setdefault(("acquired map", warp.cta.ctaid, address), [])
    return fences


def _stored(warp: Warp, address: int) -> Access | None:
    """Return the last ordinary store of the launch to a map in global memory, None if there is none."""
    if not warp.cta.launch.memory.tracked or _is_parameter(warp, address):
        return None
    area = warp.cta.cluster.outside.area(address, address + MAP_BYTES)
    wrote = None if area is None else area.last_writer(address)
    own = wrote is not None and wrote.generic and wrote.via is None and not isinstance(wrote, EarlierAccess)
    return wrote if own else None


def _is_parameter(warp: Warp, address: int) -> bool:
    launch = warp.cta.launch
    return 0 <= address - launch.params_address < launch.kernel.param_bytes


def acquire(ins: Instr, warp: Warp, address: int) -> None:
    """Perform fence.proxy.tensormap::generic.acquire.

    Later TMA operations of this CTA see the map's current bytes if its change happens before the fence.
    """
    me = warp.access(ins, ins.opcode)
    _fences(warp, address).append(me)
    changes: list[Access | None] = [change for _, change in _changes(warp).get(address, ())]
    changes = changes or [_stored(warp, address)]
    if any(change is not None and change.seen_by(warp.clock) for change in changes):
        warp.cta.maps.setdefault(address, []).append((_held(address), me))


def release(warp: Warp) -> None:
    """Perform fence.proxy.tensormap::generic.release.

    An acquirer of the maps that `warp` changed sees their current bytes.
    """
    known = (at for at, changes in _changes(warp).items() if any(_known(change, warp) for _, change in changes))
    _released(warp).update((at, _held(at)) for at in known)


def _known(access: Access, warp: Warp) -> bool:
    """Return True if `access` is the warp's own, or happens before its current point and is of the same cluster."""
    return access.warp is warp or (access.warp.cta.cluster_id == warp.cta.cluster_id and access.seen_by(warp.clock))


def _held(address: int) -> bytes:
    return host_bytes(address, MAP_BYTES).tobytes()


def _released(warp: Warp) -> set[tuple[int, bytes]]:
    """Return the released maps with their bytes at the release."""
    released: set[tuple[int, bytes]] = warp.cta.launch.registry.setdefault("released maps", set())
    return released


@performs(
    "tensormap.cp_fenceproxy",
    modifiers=({"global"}, {"shared::cta"}, {"tensormap::generic"}, {"release"}, SCOPE, {"sync"}, {"aligned"}),
)
def _copy(ins: Instr, warp: Warp, mask: Any, target: Any, source: Any, size: Any) -> None:
    to, at = same(target, mask), same(source, mask)
    if to is None or at is None or mask is not None or same(size, mask) != MAP_BYTES:
        raise DescriptorError(f"{ins.opcode}.sync.aligned copies {MAP_BYTES} bytes for a whole warp", ins, warp)
    _check_lanes(ins, warp, at)
    _global_map(ins, warp, to)[:] = _shared_map(ins, warp, at, write=False)
    _changed(ins, warp, to)
    _released(warp).add((to, _held(to)))


def _check_lanes(ins: Instr, warp: Warp, address: int) -> None:
    """Report a copy of a map that lanes of the warp changed, without bar.warp.sync in between.

    The copy's .sync makes the lanes converge, and PTX lets it order nothing: formal.
    """
    smem = warp.cta.smem
    offset = smem.local_offset(address, ins, warp, ins.opcode)
    me, accesses = warp.access(ins, ins.opcode), warp.cta.cluster.history.accesses
    for number in np.unique(smem.shadow.writer[smem.span(offset, LIVE_BYTES).index]).tolist():
        change = accesses[number]
        if change is not None and change.what == "tensormap.replace" and me.unsynced_since(change, warp.clock):
            what = f"{ins.opcode} copies a tensor map, not ordered after {change.what} of other lanes of {warp}"
            missing = f"bar.warp.sync between PTX lines {change.instr.line} and {ins.line}"
            lines = (("changed at", place(change.instr, warp)), ("missing", missing))
            warp.cta.launch.report(DataRace(what, ins, warp, lines, Leniency.TENSORMAP_LANES))
            return
