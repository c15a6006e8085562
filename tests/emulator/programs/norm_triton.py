"""A layer norm, a split-K product with atomics, and a gather, in Triton. Tests plant faults in it.

Each result is compared in another way: a part of a tensor, a difference, equality.
"""

import torch
import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def norm_kernel(x, g, y, stride, n, eps, B: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, B)
    mask = at < n
    v = tl.load(x + row * stride + at, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(v, 0) / n
    d = tl.where(mask, v - mean, 0.0)
    var = tl.sum(d * d, 0) / n
    r = d * tl.rsqrt(var + eps)
    tl.store(y + row * stride + at, r * tl.load(g + at, mask=mask), mask=mask)


@triton.jit  # type: ignore[untyped-decorator]
def split_kernel(a, b, c, M, N, K, S: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    part = tl.program_id(1)
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(part * BK, K, S * BK):
        rk = k + tl.arange(0, BK)
        x = tl.load(a + rm[:, None] * K + rk[None, :])
        y = tl.load(b + rk[:, None] * N + rn[None, :])
        acc += tl.dot(x, y)
    tl.atomic_add(c + rm[:, None] * N + rn[None, :], acc)


@triton.jit  # type: ignore[untyped-decorator]
def gather_kernel(x, index, y, pitch, B: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, B)
    source = tl.load(index + row)
    tl.store(y + row * B + at, tl.load(x + source.to(tl.int64) * pitch + at))


torch.manual_seed(0)
x = torch.randn(6, 128, device="cuda", dtype=torch.bfloat16)
g = torch.rand(100, device="cuda") + 0.5
y = torch.zeros(6, 128, device="cuda")
norm_kernel[(6,)](x, g, y, 128, 100, 1e-5, B=128)
want = torch.nn.functional.layer_norm(x[:, :100].float().cpu(), (100,), g.cpu())
torch.testing.assert_close(y[:, :100].cpu(), want, rtol=1e-4, atol=1e-4)

a = torch.randn(64, 128, device="cuda", dtype=torch.float16)
b = torch.randn(128, 64, device="cuda", dtype=torch.float16)
c = torch.zeros(64, 64, device="cuda")
split_kernel[(2, 2)](a, b, c, 64, 64, 128, S=2, BM=32, BN=64, BK=32)
assert (c.cpu() - (a.float() @ b.float()).cpu()).abs().max() < 1e-2

table = torch.randn(9, 32, device="cuda")
index = torch.tensor([3, 8, 0, 5], dtype=torch.int32, device="cuda")
out = torch.empty(4, 32, device="cuda")
gather_kernel[(4,)](table, index, out, 32, B=32)
assert out.cpu().equal(table.cpu()[index.cpu().long()])
print("right")
