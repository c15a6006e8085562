"""The kernel: attention of row tiles over KV tiles on the tensor cores of sm_100a (B200) and sm_90a (H200).

Each kind of warp is a role, and each role has a module. The arguments of a launch are in kernel/arguments.py, what all
chips share is in kernel/device/, and kernel/chips.py chooses the chip.

    role       sm_100a: kernel/sm100/             sm_90a: kernel/sm90/       of both: kernel/device/
    all roles  fmha.py, swapped.py (few heads)    fmha.py
    load       load.py, pair_load.py,             load.py (gathers keys),    load.py (gathers keys); convert.py,
               swapped_load.py                    dequantise.py              dequantise.py (quantised keys)
    multiply   mma.py, swapped_mma.py             consumer.py, wide.py
    softmax    softmax.py, swapped_softmax.py     consumer.py, softmax.py    softmax.py
    store      epilogue.py, combine.py            epilogue.py, combine.py    combine.py

A CTA works on one row tile after another: block_m rows of a sequence, or of one token if tokens have top-k indices.
Rows are query tokens times heads, packed. A row tile is one Q tile, or two Q tiles in flight. The reasons for this
design are in docs/explanation/kernel.md.

On sm_100a, columns of tensor memory, fp32 each:

    head_dim 64    |  S0 128  |  S1 128  |  O 64  | P0 64 | P1 64 |                 448 used
      two Q tiles  |  S0 128  |  S1 128  |  O0 64 | O1 64 | P0 64 | P1 64 |         512 used
    head_dim 128   |  S0 128  |  S1 128  |  O 128         | P0 64 | P1 64 |         512 used
      two Q tiles  |  S0 P0 128  |  S1 P1 128  |  O0 128  |  O1 128  |              512 used
    head_dim 256   |  S0 64  |  S1 64  |  O 256           | P0 32 | P1 32 |         448 used
      CTA pair     |  S0 P0 128  |  S1 P1 128  |  O 256              |              512 used
    head_dim 512   |  S0 64  |  S1 64  |  O 256           |                         384 used
      converting   |  S0 64  |  S1 64  |  O 256           |  Q, two of four slices  |  512 used

Up to head_dim 256 a lane is a row. At 512 a CTA has 64 rows, two softmax threads share a row, and P goes through shared
memory. With 1-CTA MMA each quarter of the lanes has 16 rows: its lanes 0-15 hold S and O's columns 0-255, its lanes
16-31 O's columns 256-511 of the same rows. With 2-CTA MMA lanes 0-63 hold all 64 rows with the first half of the keys
of S and O's columns 0-255, and lanes 64-127 the same rows with the rest. Q has all columns of the rows in both.

The warps and the mbarriers between them. KV tile i uses stage i % 2 of S, P and O's barriers. With two Q tiles in
flight each has a stage of its own. K and V arrive through rings of tiles, each tile in one slice or four. With 2-CTA
MMA only the leader CTA's MMA warp issues instructions; it waits for and signals both CTAs.

    queries, load --q_full, k_full-->   mma                  Q (by load if there is no queries warp), slices of K
    values       -----v_full-------->   mma                  slices of V, unless V is read as K
    values       ----rope_full------>   mma                  K's rotary columns if V lacks them, by the first warp
                 <-k_empty, v_empty--   mma                  a slice was read
                 <----rope_empty-----   mma                  QK has read the rotary columns
    queries      <----q_empty--------   mma                  the row tile's last QK has completed
    load, values -----tail_full----->   the same warp        a slice with invalid keys, which the warp clears
    mma          ------s_full------->   softmax              S[i] = Q K[i]' is in tensor memory
                 <-----p_full--------                        a part of P[i] is stored, and O refers to its maximum
                 ------o_done------->                        O += P[i] V[i] has completed
    softmax      --named barriers 1, 2-->  softmax           CTA pair at 512: warps 0 and 2, 1 and 3, which share rows

No "S empty" barrier is needed: QK[i+2] is issued after PV[i], PV[i] waits for p_full, and softmax arrives there only
after it has read S[i]. P, and O of the previous row tile, need none either. If a row tile sees no key, only softmax
works on it. With split keys the CTAs of a cluster divide a row tile's KV tiles and leave U, maxima and sums in the
buffers of Q and the keys. All warps of the cluster synchronize, merge rows from all partial results, and synchronize
again, because a CTA's shared memory must exist until its peers have read it.
The drawing of sm_90a is at the top of kernel/sm90/fmha.py, that of few heads at the top of kernel/sm100/swapped.py.
"""

from __future__ import annotations

from typing import Any

import cutlass.cute as cute
from cuda.bindings.driver import CUstream
from cutlass import Int32, const_expr
from cutlass.cute.nvgpu import cpasync

from kernel.arguments import Arguments, Operands
from kernel.device import operands
from kernel.device.barriers import Barriers
from kernel.device.config import DeviceConfig
from kernel.device.tiles import smaller


class Fmha:
    """The kernel of one configuration: `launch` is compiled; `layouts` lists the layouts seen while tracing."""

    def __init__(self, config: DeviceConfig) -> None:
        self.config: Any = config
        self.layouts: list[str] = []

    def trace(self, **tensors: Any) -> None:
        """Record shapes and layouts for CompiledFmha.layouts."""
        self.layouts += [f"{name:<10} {getattr(tensor, 'layout', tensor)}" for name, tensor in tensors.items()]

    @cute.jit
    def launch(self, tensors: Operands, args: Arguments, stream: CUstream) -> None:
        """Launch a CTA, CTA pair or cluster per row tile, but no more CTAs than `args.ctas` unless keys are split."""
        config = self.config
        tensors, args = operands.grouped(config, tensors, args)
        tiles = cute.ceil_div(tensors.q.shape[-2], config.adjacent_ctas * config.block_m)
        ctas = tiles * cute.size(args.lse, mode=[0]) * config.adjacent_ctas * config.splits
        ctas = Int32(smaller(ctas, args.ctas)) if config.splits == 1 else ctas
        self.device(self.products(), self.copies(tensors, args), args).launch(
            grid=[ctas, 1, 1],
            block=[config.threads, 1, 1],
            cluster=[config.cluster_ctas, 1, 1],
            min_blocks_per_mp=1,
            stream=stream,
        )

    def device(self, products: Any, copies: operands.Copies, args: Arguments) -> Any:
        """Run the role of each warp for all row tiles of the CTA."""
        raise NotImplementedError

    def products(self) -> Any:
        """Return tiled MMAs that the host builds, None if the device code builds its own."""
        return None

    def copies(self, tensors: Operands, args: Arguments) -> operands.Copies:
        """Return the TMA loads and stores, and the tensors that are accessed without TMA."""
        return operands.copies(self.config, tensors)

    @cute.jit
    def initialize(self, warp: Any, bars: Barriers, copies: operands.Copies) -> None:
        """Prefetch the tensor maps, and initialize the mbarriers."""
        roles = self.config.roles
        if warp == roles.load[0]:
            stores = (copies.o, copies.u) if self.config.stores_by_tma else ()
            for tma in (copies.q, *copies.window, *copies.compressed, *stores):
                if const_expr(tma is not None):
                    cpasync.prefetch_descriptor(tma[0])
        if warp == roles.softmax[0]:
            with cute.arch.elect_one():
                bars.init()
            cute.arch.mbarrier_init_fence()
