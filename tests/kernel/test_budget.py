"""Resources of a configuration: regions do not overlap, registers are read from the cubin, nothing is spilled."""

from __future__ import annotations

import itertools
import struct
from dataclasses import replace
from typing import Any, get_args

import pytest

import kernel
from kernel.cubin import FRAME, CubinError, resources
from kernel.hardware import WARP
from kernel.problem import Compressed, Mask
from kernel.sm100.budget import CONFIGS, SERVED_CONFIGS, drawing, report, shared_memory, tensor_memory
from kernel.sm100.config import FmhaConfig
from kernel.sm100.variants import variant
from tests.tiers import tier

SMALL = kernel.FmhaConfig(head_dim=64)
FEWER_ROWS = replace(CONFIGS[-1], block_rows=32)
ALL = (*CONFIGS, *SERVED_CONFIGS, FEWER_ROWS)
#: Two Q tiles in flight, with all features that a call may ask for. The causal ones spill first.
TWO_TILES = [
    FmhaConfig(
        head_dim=hd,
        mask=mask,
        shared_kv=keys != "none",
        partials=partials,
        compressed=keys,
        sink=True,
        variant=variant("two Q tiles", hd),
    )
    for hd, mask, partials, keys in itertools.product(
        (64, 128), get_args(Mask), (False, True), get_args(Compressed)[:2]
    )
]
#: Every third is checked by `make test-all`: all milestones compile most of them, and a kernel that spills is slower.
IN_CI = {each.name for each in (*CONFIGS, *SERVED_CONFIGS)[::3]}
#: Checked by `make test`: configurations that other tests compile too, and one with caches.
EVERY_RUN = {
    "fmha_hd64_smem_partials",
    "fmha_hd64_tmem_partials",
    "fmha_hd512_smem_partials",
    "fmha_hd512_smem_causal_shared_kv_topk_sink_cta_pair",
    "fmha_hd512_smem_shared_kv_v4_lens_v4_lens_maxima_sink_swapped32",
}


def marked(config: FmhaConfig) -> Any:
    return pytest.param(config, marks=tier(config.name in EVERY_RUN, config.name in IN_CI))


@pytest.mark.parametrize("config", ALL, ids=lambda config: config.name)
def test_regions_follow_each_other(config: kernel.FmhaConfig) -> None:
    for regions, end in ((tensor_memory(config), config.tmem.cols), (shared_memory(config), config.smem.total_bytes)):
        for one, next_one in itertools.pairwise(regions):
            assert one.start + one.size == next_one.start
        assert regions[0].start == 0 and regions[-1].start + regions[-1].size == end


def test_the_drawing_has_a_mark_for_eight_columns() -> None:
    assert drawing(SMALL) == "|S0             |S1             |O      |P0     |P1     ........|"
    assert all(len(drawing(config)) == 512 // 8 + 1 for config in ALL)


def test_what_is_checked_in_every_run_is_there() -> None:
    assert {each.name for each in (*ALL, *TWO_TILES)} >= EVERY_RUN


@pytest.mark.parametrize("config", [marked(each) for each in (*ALL, *TWO_TILES)], ids=lambda config: config.name)
def test_nothing_is_spilled_and_registers_fit(config: kernel.FmhaConfig) -> None:
    """The register file of an SM holds 65,536 registers, handed out by eight a thread."""
    taken = resources(kernel.compile(config).cubin)
    assert taken.stack_bytes == 0
    given = -(-taken.registers // 8) * 8 * config.threads
    assert taken.registers > 64 and given <= 65536
    if moved := config.variant.registers:
        roles = config.roles
        softmax, loading = WARP * len(roles.softmax), WARP * len(roles.load + roles.values)
        of_load = moved[0] if config.variant.swapped else moved[-1] if config.converts_in_pair else moved[1]
        others = (config.threads - softmax - loading) * moved[1]
        assert softmax * moved[0] + loading * of_load + others <= given


def test_a_stack_is_seen() -> None:
    """The frame size of the kernel's symbol, rewritten in its cubin."""
    cubin = kernel.compile(SMALL).cubin
    registers = resources(cubin).registers
    frames = [i for i in range(len(cubin) - 12) if struct.unpack_from("<BBH", cubin, i) == (4, FRAME, 8)]
    spilled = bytearray(cubin)
    for at in frames:
        struct.pack_into("<I", spilled, at + 8, 48)
    assert frames and resources(bytes(spilled)) == kernel.cubin.Resources(registers, 48)


@pytest.mark.parametrize("cubin", [b"", b"//\n.version 9.0", b"\x7fELF\x01\x01"], ids=["empty", "ptx", "32 bits"])
def test_what_is_no_cubin_is_refused(cubin: bytes) -> None:
    with pytest.raises(CubinError, match="a 64-bit ELF file"):
        resources(cubin)


def test_the_report_names_every_buffer() -> None:
    text = "\n".join(report(SMALL))
    used = f"{SMALL.smem.total_bytes} of 232448 bytes"
    for said in ("448 of 512 columns", "Q 16384, K0 16384", used, "0 bytes of stack"):
        assert said in text


@pytest.mark.parametrize(("partials", "stores"), [(False, (1, 1)), (True, (3, 2))])
def test_what_a_configuration_leaves_out_is_not_in_its_code(partials: bool, stores: tuple[int, int]) -> None:
    """At hd=64 TMA stores O as one box and U as two; lse and m are a store each."""
    ptx = kernel.compile(kernel.FmhaConfig(head_dim=64, partials=partials)).ptx
    assert (ptx.count("cp.async.bulk.tensor.3d.global"), ptx.count("st.global")) == stores
