"""Causal attention of one head: O = softmax(scale Q K') V, by TMA, two products on the tensor core, online softmax.

A kernel as a user writes it, with one function. It saves what O should be as ref.npy.
"""
# mypy: ignore-errors
# ruff: noqa: C901

import cutlass
import cutlass.cute as cute
import cutlass.utils as utils
import numpy as np
import torch
from cutlass import BFloat16, Float32, Int32
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, tcgen05
from cutlass.cute.runtime import from_dlpack
from cutlass.utils import blackwell_helpers as sm100

ROWS, KEYS, DIM, TILE = 128, 256, 64, 64
STAGES = 3
SCALE_LOG2 = 0.125 * 1.4426950408889634
K_BYTES = TILE * DIM * 2
COLUMNS = 128


@cute.struct
class Barriers:
    full: cute.struct.MemRange[cutlass.Int64, STAGES]
    q_full: cutlass.Int64
    s_done: cutlass.Int64
    o_done: cutlass.Int64
    tmem: Int32


def row_in_tmem(acc, thread):
    """Return the load of a thread's row of an accumulator, its source, and the shape of the registers that it fills."""
    atom = cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition(32)), Float32)
    load = tcgen05.make_tmem_copy(atom, acc).get_slice(thread)
    source = load.partition_S(acc)
    return load, source, load.partition_D(cute.make_identity_tensor(acc.shape)).shape


@cute.kernel
def attend_kernel(qk, pv, tma_q, gQ, tma_k, gK, tma_v, gV, mO, q_layout, k_layout, v_layout, p_layout):
    thread = cute.arch.thread_idx()[0]
    warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
    smem = utils.SmemAllocator()
    bars = smem.allocate(Barriers)
    sQ = smem.allocate_tensor(BFloat16, q_layout.outer, 1024, q_layout.inner)
    sK = smem.allocate_tensor(BFloat16, k_layout.outer, 1024, k_layout.inner)
    sV = smem.allocate_tensor(BFloat16, v_layout.outer, 1024, v_layout.inner)
    sP = smem.allocate_tensor(BFloat16, p_layout.outer, 1024, p_layout.inner)
    stored = cute.make_tensor(cute.recast_ptr(sP.iterator, p_layout.inner), p_layout.outer)
    full, s_done, o_done = bars.full.data_ptr(), bars.s_done.ptr, bars.o_done.ptr
    q_full = bars.q_full.ptr
    if warp == 0:
        cute.arch.alloc_tmem(COLUMNS, bars.tmem.ptr)
        with cute.arch.elect_one():
            for i in cutlass.range_constexpr(STAGES):
                cute.arch.mbarrier_init(full + i, 1)
            cute.arch.mbarrier_init(q_full, 1)
            cute.arch.mbarrier_init(s_done, 1)
            cute.arch.mbarrier_init(o_done, 1)
    cute.arch.mbarrier_init_fence()
    cute.arch.sync_threads()
    base = cute.arch.retrieve_tmem_ptr(Float32, 16, bars.tmem.ptr)

    tQ = qk.get_slice(0).partition_A(cute.local_tile(gQ, (ROWS, DIM), (None, 0)))
    tK = qk.get_slice(0).partition_B(cute.local_tile(gK, (TILE, DIM), (None, 0)))
    tV = pv.get_slice(0).partition_B(cute.local_tile(gV, (DIM, TILE), (0, None)))
    group = cute.group_modes
    one = cute.make_layout(1)
    qs, qg = cpasync.tma_partition(tma_q, 0, one, group(sQ, 0, 3), group(tQ, 0, 3))
    ks, kg = cpasync.tma_partition(tma_k, 0, one, group(sK, 0, 3), group(tK, 0, 3))
    vs, vg = cpasync.tma_partition(tma_v, 0, one, group(sV, 0, 3), group(tV, 0, 3))

    rQ, rK = qk.make_fragment_A(sQ), qk.make_fragment_B(sK)
    rP, rV = pv.make_fragment_A(sP), pv.make_fragment_B(sV)
    S = cute.make_tensor(base, qk.make_fragment_C(qk.partition_shape_C((ROWS, TILE))).layout)
    o_tmem = cute.make_tensor(base + TILE, pv.make_fragment_C(pv.partition_shape_C((ROWS, DIM))).layout)
    load_s, tS, shape = row_in_tmem(S[(None, None), 0, 0], thread)
    load_o, tO, _ = row_in_tmem(o_tmem[(None, None), 0, 0], thread)
    s, part = cute.make_rmem_tensor(shape, Float32), cute.make_rmem_tensor(shape, Float32)
    o = cute.make_rmem_tensor((DIM,), Float32)
    o.fill(0.0)
    highest, total = -Float32.inf, Float32(0.0)
    row = thread

    if warp == 0:
        with cute.arch.elect_one():
            cute.arch.mbarrier_arrive_and_expect_tx(q_full, ROWS * DIM * 2)
            cute.arch.mbarrier_arrive_and_expect_tx(full, 2 * K_BYTES)
        cute.copy(tma_q, qg[None, 0], qs[None, 0], tma_bar_ptr=q_full)
        cute.copy(tma_k, kg[None, 0], ks[None, 0], tma_bar_ptr=full)
        cute.copy(tma_v, vg[None, 0], vs[None, 0], tma_bar_ptr=full)
    cute.arch.mbarrier_wait(q_full, 0)
    tiles = KEYS // TILE
    for i in cutlass.range(tiles, unroll=1):
        # 1. Load the next tile of keys into the other stage.
        stage = i % STAGES
        following = (i + 1) % STAGES
        if warp == 0 and i + 1 < KEYS // TILE:
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(full + following, 2 * K_BYTES)
            cute.copy(tma_k, kg[None, i + 1], ks[None, following], tma_bar_ptr=full + following)
            cute.copy(tma_v, vg[None, i + 1], vs[None, following], tma_bar_ptr=full + following)
        # 2. S = Q K'
        cute.arch.mbarrier_wait(full + stage, i // STAGES % 2)
        if warp == 0:
            for k in cutlass.range_constexpr(DIM // 16):
                qk.set(tcgen05.Field.ACCUMULATE, k > 0)
                cute.gemm(qk, S, rQ[None, None, k, 0], rK[None, None, k, stage], S)
            with cute.arch.elect_one():
                tcgen05.commit(s_done)
        cute.arch.mbarrier_wait(s_done, i % 2)
        cute.copy(load_s, tS, s)
        cute.arch.fence_view_async_tmem_load()
        # 3. Online softmax of the thread's row.
        before = highest
        for j in cutlass.range_constexpr(TILE):
            if i * TILE + j > 2 * row:
                s[j] = -Float32.inf
            highest = cute.arch.fmax(highest, s[j])
        rescale = cute.math.exp2((before - highest) * SCALE_LOG2, fastmath=True)
        total = total * rescale
        for j in cutlass.range_constexpr(TILE):
            s[j] = cute.math.exp2((s[j] - highest) * SCALE_LOG2, fastmath=True)
            total = total + s[j]
        # 4. P to shared memory as bf16.
        for j in cutlass.range_constexpr(TILE):
            stored[(row, j % 16), 0, j // 16, 0] = s[j].to(BFloat16)
        cute.arch.fence_proxy("async.shared", space="cta")
        cute.arch.sync_threads()
        # 5. O = rescale O + P V
        if warp == 0:
            for k in cutlass.range_constexpr(TILE // 16):
                pv.set(tcgen05.Field.ACCUMULATE, k > 0)
                cute.gemm(pv, o_tmem, rP[None, None, k, 0], rV[None, None, k, stage], o_tmem)
            with cute.arch.elect_one():
                tcgen05.commit(o_done)
        cute.arch.mbarrier_wait(o_done, i % 2)
        cute.copy(load_o, tO, part)
        cute.arch.fence_view_async_tmem_load()
        for j in cutlass.range_constexpr(DIM):
            o[j] = o[j] * rescale + part[j]
        cute.arch.sync_threads()
    # 6. Divide by the sum and store.
    for j in cutlass.range_constexpr(DIM):
        mO[row, j] = o[j] / total
    cute.arch.sync_threads()
    if warp == 0:
        cute.arch.relinquish_tmem_alloc_permit()
        cute.arch.dealloc_tmem(cute.arch.retrieve_tmem_ptr(Float32, 16, bars.tmem.ptr), COLUMNS)


@cute.jit
def attend(q: cute.Tensor, k: cute.Tensor, v: cute.Tensor, o: cute.Tensor):
    K, MN = OperandMajorMode.K, OperandMajorMode.MN
    group = tcgen05.CtaGroup.ONE
    qk = sm100.make_trivial_tiled_mma(BFloat16, BFloat16, K, K, Float32, group, (ROWS, TILE))
    pv = sm100.make_trivial_tiled_mma(BFloat16, BFloat16, K, MN, Float32, group, (ROWS, DIM))
    q_layout = sm100.make_smem_layout_a(qk, (ROWS, TILE, DIM), BFloat16, 1)
    k_layout = sm100.make_smem_layout_b(qk, (ROWS, TILE, DIM), BFloat16, STAGES)
    v_layout = sm100.make_smem_layout_b(pv, (ROWS, DIM, TILE), BFloat16, STAGES)
    p_layout = sm100.make_smem_layout_a(pv, (ROWS, DIM, TILE), BFloat16, 1)
    load = cpasync.CopyBulkTensorTileG2SOp(group)
    v_t = cute.make_tensor(v.iterator, cute.make_layout((DIM, KEYS), stride=(1, DIM)))
    one = (0, 1, 2)
    tma_q, gQ = cute.nvgpu.make_tiled_tma_atom_A(load, q, cute.select(q_layout, one), (ROWS, TILE, DIM), qk)
    tma_k, gK = cute.nvgpu.make_tiled_tma_atom_B(load, k, cute.select(k_layout, one), (ROWS, TILE, DIM), qk)
    tma_v, gV = cute.nvgpu.make_tiled_tma_atom_B(load, v_t, cute.select(v_layout, one), (ROWS, DIM, TILE), pv)
    attend_kernel(qk, pv, tma_q, gQ, tma_k, gK, tma_v, gV, o, q_layout, k_layout, v_layout, p_layout).launch(
        grid=(1, 1, 1), block=(128, 1, 1)
    )


def reference(q, k, v):
    s = q.double() @ k.double().T * 0.125
    hidden = torch.arange(KEYS)[None, :] > 2 * torch.arange(ROWS)[:, None]
    return torch.softmax(s.masked_fill(hidden, -torch.inf), 1) @ v.double()


def main():
    torch.manual_seed(0)
    q, k, v = (torch.randn(n, DIM).bfloat16() for n in (ROWS, KEYS, KEYS))
    k += torch.arange(KEYS)[:, None] * 0.002 * q.mean(0)
    o = torch.zeros(ROWS, DIM)
    expected = reference(q, k, v)
    np.save("ref.npy", expected.numpy())
    q, k, v, o = (each.cuda() for each in (q, k, v, o))
    attend(*(from_dlpack(each, assumed_align=16) for each in (q, k, v, o)))
    torch.testing.assert_close(o.cpu().double(), expected, rtol=2e-2, atol=1e-2)
    print("right")


main()
