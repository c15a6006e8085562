"""The load role: Q and the slices of all row tiles of a CTA, in the order of their use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Int32, const_expr
from cutlass.experimental import primitives

from kernel.device.config import Ring
from kernel.device.cta import Cta
from kernel.device.load import LoadWarp, wait_empty
from kernel.device.tiles import smaller
from kernel.hardware import BF16_BYTES, WARP
from kernel.problem import FEW_TOKENS


@cute.jit
def load(
    cta: Cta,
    ring: cutlass.Constexpr[Ring | None],
    warp: Any,
    role: cutlass.Constexpr[type[LoadWarp]],
    queries: cutlass.Constexpr[Callable[[Cta, Int32], None]],
) -> None:
    """Load for all row tiles of the CTA: warp `warp` of a ring loads its slices, the queries warp (ring=None) loads Q.

    The warp that loads K loads Q too if there is no queries warp. role: the kind of warp that loads keys. queries: the
    load of Q.
    """
    kv_done = Int32(0)
    tail_loads = Int32(0)
    q_loads = Int32(0)
    loads_q = ring is None or (ring.name == "k" and not cta.config.roles.queries)
    loads_keys = ring is not None
    first, end, step = cta.row_tile_range
    for number in cutlass.range(first, end, step, unroll=1):
        at = cta.at_row_tile(number, kv_done)
        # 1. Load Q. Then a queries warp prefetches the next row tile's Q to L2, except when few tokens read key blocks:
        #    there it would compete with the current keys for HBM. With operands swapped it would compete with the
        #    store of the previous row tile's O, so it waits for that.
        if const_expr(loads_q):
            queries(at, q_loads)
            prefetches = at.row_tile.group_is_token | (at.row_tile.tokens > FEW_TOKENS)
            if prefetches & (number + step < end) and const_expr(not loads_keys):
                if const_expr(cta.config.prefetches_after_o):  # noqa: SIM102
                    if at.kv_tiles.count > 0:
                        cta.bars.wait("o_begun", 0, q_loads % 2)
                prefetch_q(cta.at_row_tile(number + step))
        # 2. Load the slices of all KV tiles.
        if const_expr(loads_keys):
            tail_loads = role(at, ring, warp).run(tail_loads)
        kv_done += at.kv_tiles.count
        q_loads += smaller(at.kv_tiles.count, 1)
    # 3. In a CTA pair, do not end before every slot is released: the leader's MMA warp signals the barriers of this
    # CTA, too,    and its shared memory must exist until then.
    if const_expr(loads_keys and cta.config.mma_ctas == 2):
        for ago in range(cta.config.smem.depth):
            wait_empty(cta, ring, warp, kv_done + ago)
    if const_expr(loads_q and cta.config.mma_ctas == 2):
        cta.bars.wait("q_empty", 0, (q_loads + 1) % 2)


@cute.jit
def prefetch_q(cta: Cta) -> None:
    """Prefetch Q of a row tile to L2, one row per lane."""
    queries = cta.copies.queries
    row_tile = cta.row_tile
    for i in cutlass.range(cute.arch.lane_idx(), smaller(cta.config.tile_m, row_tile.rows - row_tile.row(0)), WARP):
        row = queries[row_tile.row(i), None, row_tile.group]
        primitives.cp_async_bulk_prefetch(row.iterator, cta.config.qk_dim * BF16_BYTES)
