// The least time of sparse decode: a launch that copies the rows which an index list names to shared memory, and does
// nothing else. L2 is cold. Prints sequences, keys of each, CTAs of each, microseconds between two events (the median of
// 50 launches), and TB/s; the first line is a launch without work.
//
// On a Hopper GPU: nvcc -arch=sm_90a -O3 -std=c++17 -o decode_floor decode_floor.cu && ./decode_floor
// lab/data/h200/decode_floor.csv has an H200's times.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <vector>

#define CHECK(call)                                                                                \
  do {                                                                                             \
    cudaError_t e_ = (call);                                                                       \
    if (e_ != cudaSuccess) fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(e_)), exit(3);    \
  } while (0)

static const int ROW_BYTES = 1024, SLOTS = 192, THREADS = 384, LAUNCHES = 50;
static const size_t ROWS = size_t(4) << 20, FLUSH = size_t(256) << 20;

__global__ void __launch_bounds__(THREADS) copy_rows(const char *rows, const int *index, int keys, int ctas, int *never) {
  extern __shared__ __align__(128) char slots[];
  int own = keys / ctas, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int *list = index + size_t(blockIdx.x / ctas) * keys + blockIdx.x % ctas * own;
  unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(slots));
  for (int r = warp; r < own; r += THREADS / 32) {
    const char *source = rows + size_t(list[r]) * ROW_BYTES + lane * 16;
    unsigned slot = base + r % SLOTS * ROW_BYTES + lane * 16;
    for (int half = 0; half < ROW_BYTES; half += 512)
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(slot + half), "l"(source + half) : "memory");
  }
  asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  if (reinterpret_cast<int *>(slots)[threadIdx.x] == 0x12345678) *never = 1;
}

__global__ void nothing() {}

__global__ void fill_l2(const int4 *other, size_t count, int *never) {
  int sum = 0;
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) sum += other[i].x;
  if (sum == 0x12345678) *never = 1;
}

int main() {
  char *rows, *other;
  int *never, *index;
  CHECK(cudaMalloc(&rows, ROWS * ROW_BYTES));
  CHECK(cudaMemset(rows, 1, ROWS * ROW_BYTES));
  CHECK(cudaMalloc(&other, FLUSH));
  CHECK(cudaMemset(other, 1, FLUSH));
  CHECK(cudaMalloc(&never, sizeof(int)));
  CHECK(cudaMalloc(&index, sizeof(int) * 256 * 1152));
  CHECK(cudaFuncSetAttribute(copy_rows, cudaFuncAttributeMaxDynamicSharedMemorySize, SLOTS * ROW_BYTES));
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));

  auto median_us = [&](const std::function<void()> &launch) {
    std::vector<float> times;
    for (int i = 0; i < LAUNCHES; ++i) {
      fill_l2<<<528, 512>>>(reinterpret_cast<int4 *>(other), FLUSH / sizeof(int4), never);
      CHECK(cudaEventRecord(begin));
      launch();
      CHECK(cudaEventRecord(end));
      CHECK(cudaEventSynchronize(end));
      float ms;
      CHECK(cudaEventElapsedTime(&ms, begin, end));
      times.push_back(ms * 1e3f);
    }
    std::nth_element(times.begin(), times.begin() + LAUNCHES / 2, times.end());
    return times[LAUNCHES / 2];
  };

  printf("sequences,keys,ctas,us,TB/s\n0,0,0,%.2f,\n", median_us([] { nothing<<<132, THREADS>>>(); }));
  std::mt19937 random(0);
  for (int sequences : {2, 64, 256})
    for (int keys : {256, 640, 1152})
      for (int ctas : {1, 2, 4, 16}) {
        if (sequences * ctas > 512) continue;
        std::vector<int> list(size_t(sequences) * keys);
        for (int &row : list) row = random() % ROWS;
        CHECK(cudaMemcpy(index, list.data(), list.size() * sizeof(int), cudaMemcpyHostToDevice));
        float us = median_us([&] {
          copy_rows<<<sequences * ctas, THREADS, SLOTS * ROW_BYTES>>>(rows, index, keys, ctas, never);
        });
        CHECK(cudaGetLastError());
        printf("%d,%d,%d,%.2f,%.2f\n", sequences, keys, ctas, us, double(sequences) * keys * ROW_BYTES / us / 1e6);
      }
  return 0;
}
