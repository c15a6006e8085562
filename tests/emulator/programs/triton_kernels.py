"""Triton code as written for a GPU: softmax, matrix products of six dtypes, descriptors, warp specialisation."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

M = N = K = 128


@triton.jit  # type: ignore[untyped-decorator]
def softmax(x, y, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + at, at < columns, other=float("-inf"))
    scaled = tl.exp(values - tl.max(values, 0))
    tl.store(y + row * columns + at, scaled / tl.sum(scaled, 0), at < columns)


@triton.jit  # type: ignore[untyped-decorator]
def product(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows, columns = tl.arange(0, BM), tl.arange(0, BN)
    total = tl.zeros((BM, BN), c.dtype.element_ty)
    for k in range(0, K, BK):
        inner = k + tl.arange(0, BK)
        left = tl.load(a + rows[:, None] * K + inner[None, :])
        total = tl.dot(left, tl.load(b + inner[:, None] * BN + columns[None, :]), total)
    tl.store(c + rows[:, None] * BN + columns[None, :], total)


@triton.jit  # type: ignore[untyped-decorator]
def product_by_descriptors(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPECIAL: tl.constexpr):
    total = tl.zeros((BM, BN), tl.float32)
    for k in tl.range(0, K, BK, warp_specialize=SPECIAL):
        total = tl.dot(a.load([0, k]), b.load([0, k]).T, total)
    c.store([0, 0], total.to(tl.float16))


def matrix(rows: int, columns: int, dtype: torch.dtype) -> torch.Tensor:
    if dtype == torch.int8:
        return torch.randint(-8, 8, (rows, columns), dtype=dtype, device="cuda")
    return torch.randn(rows, columns, device="cuda").to(dtype)


torch.manual_seed(0)
x = torch.randn(5, 200, device="cuda")
y = torch.empty_like(x)
softmax[(5,)](x, y, 200, BLOCK=256)
torch.testing.assert_close(y, x.softmax(1))

floats = (torch.float16, torch.bfloat16, torch.float32, torch.float8_e4m3fn, torch.float8_e5m2)
for dtype in (*floats, torch.int8):
    a, b = matrix(M, K, dtype), matrix(K, N, dtype)
    c = torch.empty(M, N, device="cuda", dtype=torch.int32 if dtype == torch.int8 else torch.float32)
    product[(1,)](a, b, c, K, M, N, 64)
    error = (c.double() - a.double() @ b.double()).abs().max().item()
    assert error < (0.1 if dtype == torch.float32 else 1e-3), (dtype, error)  # tf32 has 10 bits

for special in (False, True):
    a, b = matrix(M, K, torch.float16), matrix(N, K, torch.float16)
    c = torch.empty(M, N, device="cuda", dtype=torch.float16)
    tiles = [TensorDescriptor.from_tensor(t, s) for t, s in ((a, [M, 64]), (b, [N, 64]), (c, [M, N]))]
    product_by_descriptors[(1,)](*tiles, K, M, N, 64, special, num_warps=4, num_stages=3)
    torch.testing.assert_close(c.float(), a.float() @ b.float().T, atol=0.05, rtol=0)
print("right")
