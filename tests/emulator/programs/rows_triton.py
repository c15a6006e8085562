"""A product and a softmax in Triton, with sizes that no block divides. Tests plant faults in it."""

import torch
import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def matmul_kernel(a, b, c, M, N, K, sam, sbk, scm, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0), tl.program_id(1)
    rm = m * BM + tl.arange(0, BM)
    rn = n * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        rk = k * BK + tl.arange(0, BK)
        x = tl.load(a + rm[:, None] * sam + rk[None, :], mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.0)
        y = tl.load(b + rk[:, None] * sbk + rn[None, :], mask=(rk[:, None] < K) & (rn[None, :] < N), other=0.0)
        acc = tl.dot(x, y, acc)
    tl.store(c + rm[:, None] * scm + rn[None, :], acc, mask=(rm[:, None] < M) & (rn[None, :] < N))


@triton.jit  # type: ignore[untyped-decorator]
def softmax_kernel(x, y, n, B: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, B)
    v = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
    v = v - tl.max(v, 0)
    p = tl.exp2(v * 1.4426950408889634)
    tl.store(y + row * n + at, p / tl.sum(p, 0), mask=at < n)


torch.manual_seed(0)
a = torch.randn(60, 100, device="cuda", dtype=torch.bfloat16)
b = torch.randn(100, 40, device="cuda", dtype=torch.bfloat16)
c = torch.empty(60, 40, device="cuda")
matmul_kernel[(2, 2)](a, b, c, 60, 40, 100, 100, 40, 40, BM=32, BN=32, BK=32)
torch.testing.assert_close(c.cpu(), (a.float() @ b.float()).cpu(), rtol=1e-3, atol=1e-3)
y = torch.empty(8, 100, device="cuda")
x = a[:8].float()
softmax_kernel[(8,)](x, y, 100, B=128)
torch.testing.assert_close(y.cpu(), torch.softmax(x.cpu(), -1))
print("right")
