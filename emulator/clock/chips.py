"""Chip files: what a chip takes for what, each figure with how it is known and from where."""

from __future__ import annotations

import tomllib
from dataclasses import MISSING, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, Final

HOW: Final = ("measured", "near", "fitted", "assumed")
FOLDER: Final = Path(__file__).parent


@dataclass(frozen=True)
class Chip:
    """The figures of one chip: cycles of the SM's clock unless a name says otherwise; the chip file has the sources.

    A chip has tcgen05 and tensor memory or wgmma: of what it has not its file says nothing.
    """

    name: str
    assumptions: tuple[str, ...]
    gpc_sms: tuple[int, ...]
    max_clock_ghz: float
    launch_us: float
    cta_launch: float
    busy_ghz: float
    other_power: float
    mma_columns_per_cycle: float
    smem_bytes_per_cycle: float
    fma_cycles: float
    packed_cycles: float
    alu_cycles: float
    mufu_cycles: float
    convert_cycles: float
    max_operands: float
    fma_latency: float
    alu_latency: float
    mufu_latency: float
    shared_latency: float
    peer_latency: float
    peer_bytes_per_cycle: float
    peer_arrive_latency: float
    peer_release_cycles: float
    peer_copy_bytes_per_cycle: float
    peer_received_bytes_per_cycle: float
    peer_copy_latency: float
    global_latency: float
    l2_latency: float
    arrive_latency: float
    try_wait_latency: float
    wake_latency: float
    barrier_latency: float
    barrier_warp_cycles: float
    cluster_barrier_latency: float
    tma_issue: float
    tma_box_cycles: float
    tma_gather_cycles: float
    tma_thread: float
    tma_latency: float
    tma_l2_saving: float
    tma_store_latency: float
    store_bytes_per_cycle: float
    copy_latency: float
    cold_latency: float
    bytes_in_flight_per_cycle: float
    sm_bytes_per_cycle: float
    l2_bytes_in_flight_per_cycle: float
    burst_cycles: float
    hbm_bytes_per_us: float
    l2_bytes_per_us: float
    l2_shared_bytes_per_us: float
    mma_latency: float = 0.0
    mma_pair_latency: float = 0.0
    mma_pair_half_latency: float = 0.0
    mma_scaled_latency: float = 0.0
    mma_pair_smem: float = 0.0
    mma_pair_least: float = 0.0
    mma_group_overhead: float = 0.0
    tmem_bytes_per_cycle: float = 0.0
    tmem_latency: float = 0.0
    wgmma_latency: float = 0.0
    wgmma_registers_latency: float = 0.0
    wgmma_least: float = 0.0
    wgmma_issue: float = 0.0
    wgmma_delay: float = 0.0
    fma_beside_wgmma: float = 1.0
    alu_beside_wgmma: float = 1.0
    mufu_beside_wgmma: float = 1.0

    @property
    def sms(self) -> int:
        """SMs of the chip."""
        return sum(self.gpc_sms)

    def slots(self, cluster: int) -> int:
        """How many clusters of so many CTAs, each on an SM of its own in one GPC, the chip has room for."""
        return max(sum(sms // cluster for sms in self.gpc_sms), 1)

    def l2_share(self, sms: int, shared: bool = False) -> float:
        """What one of `sms` SMs has of L2, in bytes a cycle. L2's clock is taken to fall with the SMs'."""
        rate = self.l2_shared_bytes_per_us if shared else self.l2_bytes_per_us
        return rate / (1e3 * self.max_clock_ghz * sms)

    def hbm_share(self, sms: int, ghz: float) -> float:
        """The same of HBM, which keeps its own clock, where cycles pass at a rate."""
        return self.hbm_bytes_per_us / (1e3 * ghz * sms)


@cache
def chip(name: str) -> Chip:
    """The chip of a file in this folder. Raises ValueError, naming the allowed ones, for one that is not there."""
    known = sorted(path.stem for path in FOLDER.glob("*.toml"))
    if name not in known:
        raise ValueError(f"clock is {name!r}; allowed: {' or '.join(map(repr, known))}")
    figures = tomllib.loads((FOLDER / f"{name}.toml").read_text())
    shown = figures.pop("name")
    known_figures = {f.name: f.default is MISSING for f in fields(Chip) if f.name not in ("name", "assumptions")}
    wrong = set(figures) - set(known_figures) | {n for n, needed in known_figures.items() if needed} - set(figures)
    if wrong or any(set(f) != {"value", "how", "source"} for f in figures.values()):
        raise ValueError(f"{name}.toml has not the figures of a chip: {sorted(wrong)}")
    assumed = tuple(f"{n} = {f['value']}: {f['source']}" for n, f in figures.items() if f["how"] == "assumed")
    values = {n: f["value"] for n, f in figures.items()}
    made: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else float(v) for n, v in values.items()}
    return Chip(shown, assumed, **made)
