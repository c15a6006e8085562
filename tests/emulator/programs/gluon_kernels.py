"""Gluon code as written for a GPU: a product by TMA and tcgen05 with explicit barriers and tensor memory."""

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.blackwell import (
    TensorMemoryLayout,
    allocate_tensor_memory,
    fence_async_shared,
    mbarrier,
    tcgen05_commit,
    tcgen05_mma,
    tma,
)
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

M, N, K = 128, 64, 64


@gluon.jit  # type: ignore[untyped-decorator]
def product(a, b, c, M: gl.constexpr, N: gl.constexpr, K: gl.constexpr):
    left = gl.allocate_shared_memory(a.dtype, [M, K], a.layout)
    right = gl.allocate_shared_memory(b.dtype, [N, K], b.layout)
    full = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    done = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(full, count=1)
    mbarrier.init(done, count=1)
    mbarrier.expect(full, a.block_type.nbytes + b.block_type.nbytes)
    tma.async_load(a, [0, 0], full, left)
    tma.async_load(b, [0, 0], full, right)
    mbarrier.wait(full, phase=0)
    layout: gl.constexpr = TensorMemoryLayout([M, N], col_stride=1)
    total = allocate_tensor_memory(gl.float32, [M, N], layout)
    tcgen05_mma(left, right.permute((1, 0)), total, use_acc=False)
    tcgen05_commit(done)
    mbarrier.wait(done, phase=0)
    mbarrier.invalidate(full)
    mbarrier.invalidate(done)
    out = gl.allocate_shared_memory(c.dtype, [M, N], c.layout)
    out.store(total.load().to(c.dtype))
    fence_async_shared()
    tma.async_store(c, [0, 0], out)
    tma.store_wait(pendings=0)


def descriptor(tensor: torch.Tensor) -> TensorDescriptor:
    shape = list(tensor.shape)
    return TensorDescriptor.from_tensor(tensor, shape, gl.NVMMASharedLayout.get_default_for(shape, gl.float16))


torch.manual_seed(0)
a, b = (torch.randn(rows, K, device="cuda").half() for rows in (M, N))
c = torch.empty(M, N, device="cuda", dtype=torch.float16)
product[(1,)](descriptor(a), descriptor(b), descriptor(c), M, N, K, num_warps=4)
torch.testing.assert_close(c.float(), a.float() @ b.float().T, atol=0.05, rtol=0)
print("right")
