// Cycles of mma.sync.m16n8k16 on an SM, by its warps and the accumulators of each: mma_sync.csv.
// nvcc -arch=sm_90a -O3 -o mma_sync lab/mma_sync.cu && ./mma_sync
// Few accumulators show the latency; many warps show the rate.
#include <cstdio>

#include <cuda_runtime.h>

constexpr int kRounds = 1024;

template <int kChains>
__global__ void Multiply(long long* cycles, float* sink) {
  float d[kChains][4] = {};
  unsigned a[4] = {threadIdx.x, 1, 2, 3}, b[2] = {4, threadIdx.x};
  __syncthreads();
  long long start = clock64();
  for (int i = 0; i < kRounds; i++)
#pragma unroll
    for (int c = 0; c < kChains; c++)
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
          : "+f"(d[c][0]), "+f"(d[c][1]), "+f"(d[c][2]), "+f"(d[c][3])
          : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  long long end = clock64();
  float sum = 0;
  for (int c = 0; c < kChains; c++) sum += d[c][0] + d[c][1] + d[c][2] + d[c][3];
  sink[blockIdx.x * blockDim.x + threadIdx.x] = sum;
  if (threadIdx.x == 0 && blockIdx.x == 0) *cycles = end - start;
}

template <int kChains>
void Print(int warps, int ctas) {
  long long *out, cycles;
  float* sink;
  cudaMalloc(&out, sizeof(cycles));
  cudaMalloc(&sink, ctas * warps * 32 * sizeof(float));
  for (int i = 0; i < 3; i++) Multiply<kChains><<<ctas, warps * 32>>>(out, sink);
  cudaMemcpy(&cycles, out, sizeof(cycles), cudaMemcpyDeviceToHost);
  printf("%d,%d,%d,%.3f\n", ctas, warps, kChains, double(cycles) / kRounds / kChains);
  cudaFree(out);
  cudaFree(sink);
}

int main() {
  printf("ctas,warps,chains,cycles\n");
  for (int ctas : {1, 132})
    for (int warps : {1, 4, 8, 16}) {
      Print<1>(warps, ctas);
      Print<2>(warps, ctas);
      Print<4>(warps, ctas);
      Print<8>(warps, ctas);
      Print<16>(warps, ctas);
    }
  return cudaDeviceSynchronize();
}
