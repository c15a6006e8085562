// Running sums by shuffles, a sum whose last block adds the parts, and bulk copies with mbarriers.
// Tests plant faults in it.
#include <cstdint>
#include <cuda/ptx>

#include "right.h"

constexpr int N = 1024, T = 128;

__global__ void scan(const float *x, float *y) {
  extern __shared__ float shared[];
  float *sums = shared, *carried = shared + T / 32;
  int i = blockIdx.x * T + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float v = x[i];
  for (int step = 1; step < 32; step *= 2) {
    float u = __shfl_up_sync(0xffffffffu, v, step);
    if (lane >= step) v += u;
  }
  if (lane == 31) sums[warp] = v;
  __syncthreads();
  if (threadIdx.x == 0) {
    float before = 0;
    for (int w = 0; w < T / 32; ++w) carried[w] = before, before += sums[w];
  }
  __syncthreads();
  y[i] = v + carried[warp];
}

__device__ unsigned finished;
__global__ void total(const float *x, float *part, float *y) {
  __shared__ float s[T];
  __shared__ bool last;
  s[threadIdx.x] = x[blockIdx.x * T + threadIdx.x];
  __syncthreads();
  for (int step = T / 2; step; step /= 2) {
    if (threadIdx.x < step) s[threadIdx.x] += s[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    part[blockIdx.x] = s[0];
    __threadfence();
    last = atomicAdd(&finished, 1) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    float sum = 0;
    for (int b = 0; b < gridDim.x; ++b) sum += part[b];
    *y = sum;
  }
}

__global__ void pipeline(const float *x, float *y, int tiles) {
  namespace ptx = cuda::ptx;
  __shared__ alignas(128) float buffer[2][T];
  __shared__ uint64_t full[2];
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full[0], 1);
    ptx::mbarrier_init(&full[1], 1);
    ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
  }
  __syncthreads();
  float sum = 0;
  auto load = [&](int t) {
    if (threadIdx.x == 0 && t < tiles) {
      ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full[t % 2], T * 4);
      ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, buffer[t % 2], x + t * T, T * 4, &full[t % 2]);
    }
  };
  load(0);
  for (int t = 0; t < tiles; ++t) {
    load(t + 1);
    while (!ptx::mbarrier_try_wait_parity(&full[t % 2], t / 2 % 2)) {}
    sum = sum * 0.5f + buffer[t % 2][threadIdx.x];
    __syncthreads();
  }
  y[threadIdx.x] = sum;
}

int main() {
  static float x[N], p[N], sum[1], piped[T];
  for (int i = 0; i < N; ++i) x[i] = (i * 37 % 101) / 50.f - 1;
  for (int i = 0; i < N; ++i) p[i] = x[i] + (i % T ? p[i - 1] : 0), sum[0] += x[i];
  for (int i = 0; i < N; ++i) piped[i % T] = piped[i % T] * 0.5f + x[i];
  float *dx, *dp, *dpart, *dsum, *dpiped;
  cudaMalloc(&dx, sizeof x), cudaMalloc(&dp, sizeof p), cudaMalloc(&dpart, N / T * sizeof(float));
  cudaMalloc(&dsum, sizeof sum), cudaMalloc(&dpiped, sizeof piped);
  cudaMemcpy(dx, x, sizeof x, cudaMemcpyHostToDevice);
  scan<<<N / T, T, 2 * T / 32 * sizeof(float)>>>(dx, dp);
  total<<<N / T, T>>>(dx, dpart, dsum);
  pipeline<<<1, T>>>(dx, dpiped, N / T);
  return !(right("scan", dp, p, N) && right("total", dsum, sum, 1) && right("pipeline", dpiped, piped, T));
}
