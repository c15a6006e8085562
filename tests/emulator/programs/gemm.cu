// C = A B^T in CUDA C++: bf16 in, float out; TMA loads and tcgen05.mma, one CTA of 128 threads for each 128x128 tile.
#include <cuda.h>
#include <cuda_bf16.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int BLOCK_M = 128, BLOCK_N = 128, BLOCK_K = 64, THREADS = 128;
constexpr int TILE_BYTES = (BLOCK_M + BLOCK_N) * BLOCK_K * 2;

__device__ uint32_t shared(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }

__device__ uint64_t descriptor(uint32_t at) {  // K-major rows of 128 bytes, swizzled; 8 rows every 1,024 bytes
  return uint64_t((at & 0x3FFFF) >> 4) | 1ull << 16 | uint64_t(1024 >> 4) << 32 | 1ull << 46 | 2ull << 61;
}

__device__ void wait(uint32_t bar, uint32_t phase) {
  uint32_t done;
  do {
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(bar), "r"(phase)
        : "memory");
  } while (!done);
}

__device__ void load(uint32_t to, const CUtensorMap* map, int k, int row, uint32_t bar) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
      "l"(map), "r"(k), "r"(row), "r"(bar)
      : "memory");
}

__global__ __launch_bounds__(THREADS) void gemm(
    const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, float* c, int n, int k) {
  extern __shared__ __align__(1024) char raw[];
  __shared__ __align__(8) uint64_t bars[2];
  __shared__ uint32_t column;
  uint32_t left = (shared(raw) + 1023) & ~1023u, right = left + BLOCK_M * BLOCK_K * 2;
  uint32_t full = shared(&bars[0]), done = shared(&bars[1]);
  int warp = threadIdx.x / 32, row = blockIdx.y * BLOCK_M, col = blockIdx.x * BLOCK_N;
  if (warp == 0) {
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 128;" ::"r"(shared(&column)) : "memory");
    if (threadIdx.x == 0) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(full));
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(done));
      asm volatile("fence.mbarrier_init.release.cluster;");
    }
  }
  __syncthreads();
  uint32_t tmem = column;
  uint32_t shape = 1u << 4 | 1u << 7 | 1u << 10 | (BLOCK_N / 8) << 17 | (BLOCK_M / 16) << 24;
  for (int it = 0; it < k / BLOCK_K; it++) {
    if (threadIdx.x == 0) {
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(full), "r"(TILE_BYTES));
      load(left, &a, it * BLOCK_K, row, full);
      load(right, &b, it * BLOCK_K, col, full);
      wait(full, it & 1);
      for (int step = 0; step < BLOCK_K / 16; step++) {
        asm volatile(
            "{ .reg .pred p; setp.ne.u32 p, %4, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p; }" ::"r"(tmem),
            "l"(descriptor(left + step * 32)), "l"(descriptor(right + step * 32)), "r"(shape), "r"(it + step));
      }
      asm volatile(
          "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(done)
          : "memory");
    }
    wait(done, it & 1);
    __syncthreads();  // or the first warp would go on two phases before another has waited for one
  }
  for (int j = 0; j < BLOCK_N; j += 4) {
    uint32_t v[4];
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "r"(tmem + (warp * 32 << 16) + j));
    asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
    for (int i = 0; i < 4; i++) c[(size_t)(row + threadIdx.x) * n + col + j + i] = __uint_as_float(v[i]);
  }
  __syncthreads();
  if (warp == 0) {
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 128;" ::"r"(tmem));
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
  }
}

using Matrix = std::vector<__nv_bfloat16>;

Matrix drawn(int size) {
  Matrix found(size);
  for (auto& x : found) x = __float2bfloat16(rand() / (float)RAND_MAX - 0.5f);
  return found;
}

CUtensorMap copied(const Matrix& matrix, int rows, int k) {
  void *device, *function;
  cudaMalloc(&device, matrix.size() * 2);
  cudaMemcpy(device, matrix.data(), matrix.size() * 2, cudaMemcpyHostToDevice);
  cudaDriverEntryPointQueryResult found;
  cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found);
  CUtensorMap map;
  cuuint64_t size[] = {(cuuint64_t)k, (cuuint64_t)rows}, stride[] = {(cuuint64_t)k * 2};
  cuuint32_t box[] = {BLOCK_K, 128}, step[] = {1, 1};
  if (((decltype(&cuTensorMapEncodeTiled))function)(
          &map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, device, size, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
          CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE))
    exit(2);
  return map;
}

int main() {
  int m = 256, n = 128, k = 256, bytes = TILE_BYTES + 1024;
  Matrix a = drawn(m * k), b = drawn(n * k);
  std::vector<float> c(m * n);
  float* out;
  cudaMalloc(&out, c.size() * 4);
  cudaFuncSetAttribute(gemm, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  gemm<<<dim3(n / BLOCK_N, m / BLOCK_M), THREADS, bytes>>>(copied(a, m, k), copied(b, n, k), out, n, k);
  cudaError_t error = cudaDeviceSynchronize();
  if (error) {
    printf("failed: %s\n", cudaGetErrorString(error));
    return 1;
  }
  cudaMemcpy(c.data(), out, c.size() * 4, cudaMemcpyDeviceToHost);
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      float sum = 0;
      for (int l = 0; l < k; l++) sum += __bfloat162float(a[i * k + l]) * __bfloat162float(b[j * k + l]);
      if (!(fabsf(sum - c[i * n + j]) < 1e-4f)) {
        printf("wrong at %d, %d: %g for %g\n", i, j, c[i * n + j], sum);
        return 1;
      }
    }
  printf("right\n");
}
