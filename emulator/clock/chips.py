"""Chip files: the timing figures of a chip, each with how it is known and its source."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any, Final, cast

ASSUMED: Final = "assumed"
FOLDER: Final = Path(__file__).parent
ERRORS: Final = FOLDER / "errors.toml"
RANGES: Final = FOLDER / "ranges.toml"
DESCRIPTIONS: Final = ("name", "file", "assumptions")
"""The fields of a chip that are no figures."""


@dataclass(frozen=True)
class Chip:
    """The timing figures of one chip, in cycles of the SM's clock unless a name gives another unit.

    The chip file names the source of each, and under `also` what other sources say. Figures with a default describe
    tensor memory and forms of MMA that not every chip has.
    file: the name of its file. assumptions: the reason for each figure that is assumed, by its name.
    """

    name: str
    file: str
    assumptions: Mapping[str, str] = field(hash=False)
    gpc_sms: tuple[int, ...]
    max_clock_ghz: float
    launch_us: float
    cta_launch: float
    busy_ghz: float
    other_power: float
    zeros_power: float
    l2_bytes: float
    mma_columns_per_cycle: float
    mma_flops_per_cycle: float
    warp_mma_flops_per_cycle: float
    warp_mma_latency: float
    smem_bytes_per_cycle: float
    fma_cycles: float
    packed_cycles: float
    alu_cycles: float
    mufu_cycles: float
    convert_cycles: float
    unpack_cycles: float
    scalar_convert_cycles: float
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
    l1_bytes_per_cycle: float
    arrive_latency: float
    try_wait_latency: float
    try_wait_cycles: float
    try_wait_hint_us: float
    wake_latency: float
    barrier_latency: float
    barrier_warp_cycles: float
    cluster_barrier_latency: float
    tma_issue: float
    tma_box_cycles: float
    tma_line_cycles: float
    tma_thread: float
    tma_latency: float
    tma_l2_saving: float
    merged_saving: float
    tma_store_latency: float
    store_bytes_per_cycle: float
    copy_latency: float
    copy_l2_saving: float
    copy_bytes_per_cycle: float
    copy_arrive_cycles: float
    cold_latency: float
    bytes_in_flight_per_cycle: float
    sm_bytes_per_cycle: float
    burst_cycles: float
    hbm_bytes_per_us: float
    l2_bytes_per_us: float
    l2_shared_bytes_per_us: float
    l2_store_bytes_per_us: float
    atomic_sector_cycles: float
    atomic_word_cycles: float
    atomic_float_cycles: float
    atomics_at_once: float
    atomics_answered: float
    atomics_half_lines: float
    atomic_loop_cycles: float
    atomic_loop_lsu: float
    mma_latency: float = 0.0
    mma_pair_latency: float = 0.0
    mma_pair_half_latency: float = 0.0
    mma_scaled_latency: float = 0.0
    mma_pair_smem: float = 0.0
    mma_pair_least: float = 0.0
    mma_ws_stall: float = 0.0
    mma_ws_narrow_stall: float = 0.0
    mma_group_overhead: float = 0.0
    smem_backlog_cycles: float = 0.0
    tensor_copy_bytes_per_cycle: float = 0.0
    tensor_copy_warp_bytes_per_cycle: float = 0.0
    tmem_bytes_per_cycle: float = 0.0
    tmem_latency: float = 0.0
    tmem_store_latency: float = 0.0
    mma_registers_latency: float = 0.0
    mma_least: float = 0.0
    mma_issue: float = 0.0
    mma_delay: float = 0.0
    fma_during_mma: float = 1.0
    alu_during_mma: float = 1.0
    mufu_during_mma: float = 1.0
    fetch_cycles: float = 0.0
    l2_far_cycles: float = 0.0
    l2_box_cycles: float = 0.0
    start_cycles: float = 0.0

    @property
    def sms(self) -> int:
        """The number of SMs."""
        return sum(self.gpc_sms)

    def slots(self, cluster: int) -> int:
        """Return the number of clusters of `cluster` CTAs that fit at one CTA per SM. A cluster stays in one GPC."""
        if cluster == 1:
            return self.sms
        return max(sum(sms // cluster for sms in self.gpc_sms), 1)

    def l2_share(self, sms: int, shared: bool = False) -> float:
        """Return the L2 bandwidth of each of `sms` SMs in bytes per cycle.

        The L2 clock is assumed to scale with the SMs'.
        shared: of bytes that several SMs load at the same time.
        """
        rate = self.l2_shared_bytes_per_us if shared else self.l2_bytes_per_us
        return rate / (1e3 * self.max_clock_ghz * sms)

    def l2_store_share(self, sms: int) -> float:
        """Return the bytes per cycle that each of `sms` SMs can store to L2."""
        return self.l2_store_bytes_per_us / (1e3 * self.max_clock_ghz * sms)

    def load_latency(self, hbm: float, spread: float = 0.0) -> float:
        """Return the mean latency of warps' own loads that L1 does not hold if a share of them waits for HBM.

        spread: the probability that a load has lines in both halves of L2. `l2_latency` is a mean of these.
        """
        return hbm * self.global_latency + (1 - hbm) * (self.l2_latency + spread * self.l2_far_cycles / 2)

    def hbm_share(self, sms: int, ghz: float) -> float:
        """Return the HBM bandwidth of each of `sms` SMs in bytes per SM cycle at `ghz`. HBM has a clock of its own."""
        return self.hbm_bytes_per_us / (1e3 * ghz * sms)


class ReadFigures:
    """A stand-in for a chip that records which figures are read.

    A figure is looked up once and then is an attribute of this object.
    """

    def __init__(self, chip: Chip) -> None:
        self._chip = chip
        self.names: set[str] = set()
        """The names of the figures that were read."""

    def __getattr__(self, name: str) -> Any:
        method = getattr(Chip, name, None)
        if isinstance(method, FunctionType):
            found: Any = MethodType(method, self)
        else:
            found = getattr(self._chip, name)
            self.names.add(name)
        self.__dict__[name] = found
        return found


def reading(chip: Chip) -> tuple[Chip, set[str]]:
    """Return (a chip that records which of its figures are read, their names as they are read)."""
    recording = ReadFigures(chip)
    return cast(Chip, recording), recording.names


@cache
def parent_of(name: str) -> str | None:
    """Return the chip that a chip file is `like`, None if it has all figures itself."""
    like = tomllib.loads((FOLDER / f"{name}.toml").read_text()).get("like")
    return None if like is None else str(like)


def figures_of(name: str) -> dict[str, Any]:
    """Return the figures of a chip file. A file that is `like` another one has only those in which they differ."""
    own = tomllib.loads((FOLDER / f"{name}.toml").read_text())
    like = own.pop("like", None)
    return own if like is None else figures_of(like) | own


def names() -> list[str]:
    """Return the names of the chip files, sorted."""
    return sorted({path.stem for path in FOLDER.glob("*.toml")} - {ERRORS.stem, RANGES.stem})


@cache
def chip(name: str) -> Chip:
    """Load the chip file `name`.toml of this folder. Raises ValueError with the allowed names if there is none."""
    if name not in names():
        raise ValueError(f"clock is {name!r}; allowed: {' or '.join(map(repr, names()))}")
    figures = figures_of(name)
    shown = figures.pop("name")
    known_figures = {f.name: f.default is MISSING for f in fields(Chip) if f.name not in DESCRIPTIONS}
    wrong = set(figures) - set(known_figures) | {n for n, needed in known_figures.items() if needed} - set(figures)
    if wrong or any(set(f) - {"also"} != {"value", "how", "source"} for f in figures.values()):
        raise ValueError(f"{name}.toml: figures missing, unknown or without value, how and source: {sorted(wrong)}")
    assumed = {n: f"{n} = {f['value']}: {f['source']}" for n, f in figures.items() if f["how"] == ASSUMED}
    values = {n: f["value"] for n, f in figures.items()}
    made: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else float(v) for n, v in values.items()}
    return Chip(shown, name, assumed, **made)
