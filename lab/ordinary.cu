// Small ordinary kernels: how long each takes. Without arguments: measure all, CSV to stdout (name,bytes,us).
// `points once NAME`: launch once each point whose name contains NAME, without preparing data (for a prediction). `points list`: the names.
#include <cuda_runtime.h>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#define CHECK(call) do { cudaError_t e = (call); if (e != cudaSuccess) { \
  fprintf(stderr, "%s:%d %s\n", __FILE__, __LINE__, cudaGetErrorString(e)); exit(1); } } while (0)

// ---- streams ----
template <typename T> __device__ T plus(T a, T b);
template <> __device__ float plus(float a, float b) { return a + b; }
template <> __device__ float4 plus(float4 a, float4 b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }

template <typename T, int U>
__global__ void add(const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ c, int n) {
  int stride = gridDim.x * blockDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i + (U - 1) * stride < n; i += U * stride) {
    T x[U], y[U];
#pragma unroll
    for (int u = 0; u < U; ++u) { x[u] = a[i + u * stride]; y[u] = b[i + u * stride]; }
#pragma unroll
    for (int u = 0; u < U; ++u) c[i + u * stride] = plus(x[u], y[u]);
  }
}

template <typename T>
__global__ void add_once(const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = plus(a[i], b[i]);
}

template <int U>
__global__ void sum(const float4* __restrict__ a, float* out, int n) {
  float s = 0;
  int stride = gridDim.x * blockDim.x;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i + (U - 1) * stride < n; i += U * stride) {
    float4 x[U];
#pragma unroll
    for (int u = 0; u < U; ++u) x[u] = a[i + u * stride];
#pragma unroll
    for (int u = 0; u < U; ++u) s += x[u].x + x[u].y + x[u].z + x[u].w;
  }
#pragma unroll
  for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(0xffffffff, s, o);
  if (threadIdx.x % 32 == 0) atomicAdd(out, s);
}

__global__ void fill(float4* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = {1, 2, 3, 4};
}

__global__ void strided(const float* __restrict__ in, float* __restrict__ out, int n, int s) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[(size_t)i * s];
}

template <int S>
__global__ void strided_store(const float* __restrict__ in, float* __restrict__ out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[(size_t)i * S] = in[i];
}

template <int S>
__global__ void strided_known(const float* __restrict__ in, float* __restrict__ out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[(size_t)i * S];
}

// ---- transposes of a square matrix, blocks of 32x8 ----
__global__ void transpose_reads(const float* __restrict__ in, float* __restrict__ out, int n) {
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
#pragma unroll
  for (int j = 0; j < 32; j += 8) out[x * n + y + j] = in[(y + j) * n + x];
}
__global__ void transpose_writes(const float* __restrict__ in, float* __restrict__ out, int n) {
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
#pragma unroll
  for (int j = 0; j < 32; j += 8) out[(y + j) * n + x] = in[x * n + y + j];
}
template <int PAD>
__global__ void transpose_tiled(const float* __restrict__ in, float* __restrict__ out, int n) {
  __shared__ float tile[32][32 + PAD];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
#pragma unroll
  for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
#pragma unroll
  for (int j = 0; j < 32; j += 8) out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}

// ---- rows ----
template <bool MAX>
__device__ float of_block(float v) {
  __shared__ float part[32];
#pragma unroll
  for (int o = 16; o; o >>= 1) { float w = __shfl_xor_sync(0xffffffff, v, o); v = MAX ? fmaxf(v, w) : v + w; }
  __syncthreads();
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
  __syncthreads();
  v = threadIdx.x % 32 < blockDim.x / 32 ? part[threadIdx.x % 32] : (MAX ? -1e30f : 0.f);
#pragma unroll
  for (int o = 16; o; o >>= 1) { float w = __shfl_xor_sync(0xffffffff, v, o); v = MAX ? fmaxf(v, w) : v + w; }
  return v;
}
__global__ void softmax_passes(const float* __restrict__ in, float* __restrict__ out, int columns) {
  const float* row = in + (size_t)blockIdx.x * columns;
  float m = -1e30f, s = 0;
  for (int i = threadIdx.x; i < columns; i += blockDim.x) m = fmaxf(m, row[i]);
  m = of_block<true>(m);
  for (int i = threadIdx.x; i < columns; i += blockDim.x) s += __expf(row[i] - m);
  s = of_block<false>(s);
  for (int i = threadIdx.x; i < columns; i += blockDim.x) out[(size_t)blockIdx.x * columns + i] = __expf(row[i] - m) / s;
}
template <int E>
__global__ void softmax_once(const float* __restrict__ in, float* __restrict__ out, int columns) {
  const float* row = in + (size_t)blockIdx.x * columns;
  float x[E], m = -1e30f, s = 0;
#pragma unroll
  for (int e = 0; e < E; ++e) x[e] = row[threadIdx.x + e * blockDim.x];
#pragma unroll
  for (int e = 0; e < E; ++e) m = fmaxf(m, x[e]);
  m = of_block<true>(m);
#pragma unroll
  for (int e = 0; e < E; ++e) { x[e] = __expf(x[e] - m); s += x[e]; }
  s = of_block<false>(s);
#pragma unroll
  for (int e = 0; e < E; ++e) out[(size_t)blockIdx.x * columns + threadIdx.x + e * blockDim.x] = x[e] / s;
}
__global__ void rms_warp(const float4* __restrict__ in, const float4* __restrict__ w, float4* __restrict__ out, int columns) {
  int r = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  const float4* row = in + (size_t)r * columns;
  float s = 0;
  for (int i = lane; i < columns; i += 32) { float4 v = row[i]; s += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w; }
#pragma unroll
  for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(0xffffffff, s, o);
  float f = rsqrtf(s / (4 * columns) + 1e-6f);
  for (int i = lane; i < columns; i += 32) {
    float4 v = row[i], g = w[i];
    out[(size_t)r * columns + i] = {v.x * f * g.x, v.y * f * g.y, v.z * f * g.z, v.w * f * g.w};
  }
}
// Rows of `width` values in a block for 2,048: the rest is masked, by whole warps or (lanes) within each warp.
template <bool LANES>
__global__ void masked(const float* __restrict__ in, float* __restrict__ out, int width, int rows) {
  for (int r = blockIdx.x; r < rows; r += gridDim.x) {
    float x[8], s = 0;
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      int i = threadIdx.x + e * blockDim.x;
      int at = LANES ? (i / 32) * 8 + i % 32 : i;
      bool on = LANES ? i % 32 < 8 : i < width;
      x[e] = on ? in[(size_t)r * width + at] : 0.f;
    }
#pragma unroll
    for (int e = 0; e < 8; ++e) s += x[e];
    s = of_block<false>(s);
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      int i = threadIdx.x + e * blockDim.x;
      int at = LANES ? (i / 32) * 8 + i % 32 : i;
      bool on = LANES ? i % 32 < 8 : i < width;
      if (on) out[(size_t)r * width + at] = x[e] - s;
    }
  }
}

// ---- GEMMs of n^3, fp32 ----
template <bool ROWS>
__global__ void gemm_naive(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
  int row = ROWS ? i : j, column = ROWS ? j : i;
  float s = 0;
  for (int k = 0; k < n; ++k) s += a[row * n + k] * b[k * n + column];
  c[row * n + column] = s;
}
template <int T>
__global__ void gemm_tiled(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int n) {
  __shared__ float ta[T][T], tb[T][T];
  int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * T + y, column = blockIdx.x * T + x;
  float s = 0;
  for (int k = 0; k < n; k += T) {
    ta[y][x] = a[row * n + k + x];
    tb[y][x] = b[(k + y) * n + column];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < T; ++i) s += ta[y][i] * tb[i][x];
    __syncthreads();
  }
  c[row * n + column] = s;
}
// Tiles of 64x64 of C, 256 threads of 4x4, steps of 16.
__global__ void gemm_registers(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int n) {
  __shared__ float ta[16][64 + 4], tb[16][64];
  int t = threadIdx.x, x = t % 16, y = t / 16, row0 = blockIdx.y * 64, column0 = blockIdx.x * 64;
  float s[4][4] = {};
  for (int k = 0; k < n; k += 16) {
    float4 va = *(const float4*)&a[(row0 + t / 4) * n + k + t % 4 * 4];
    float4 vb = *(const float4*)&b[(k + t / 16) * n + column0 + t % 16 * 4];
    ta[t % 4 * 4][t / 4] = va.x; ta[t % 4 * 4 + 1][t / 4] = va.y; ta[t % 4 * 4 + 2][t / 4] = va.z; ta[t % 4 * 4 + 3][t / 4] = va.w;
    *(float4*)&tb[t / 16][t % 16 * 4] = vb;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      float4 fa = *(float4*)&ta[i][y * 4], fb = *(float4*)&tb[i][x * 4];
      float pa[4] = {fa.x, fa.y, fa.z, fa.w}, pb[4] = {fb.x, fb.y, fb.z, fb.w};
#pragma unroll
      for (int p = 0; p < 4; ++p)
#pragma unroll
        for (int q = 0; q < 4; ++q) s[p][q] += pa[p] * pb[q];
    }
    __syncthreads();
  }
#pragma unroll
  for (int p = 0; p < 4; ++p) *(float4*)&c[(row0 + y * 4 + p) * n + column0 + x * 4] = {s[p][0], s[p][1], s[p][2], s[p][3]};
}

// ---- caches: each CTA reads the same window again and again ----
template <typename T, bool COMMON>
__global__ void window(const T* __restrict__ in, float* out, int elements, int rounds) {
  const T* mine = in + (COMMON ? 0 : (size_t)blockIdx.x * elements);
  float s = 0;
  for (int r = 0; r < rounds; ++r)
#pragma unroll 4
    for (int i = threadIdx.x; i < elements; i += blockDim.x) {
      T v = mine[i];
      s += *(const float*)&v + ((const float*)&v)[sizeof(T) / 4 - 1];
    }
  if (s == 12345.f) out[threadIdx.x] = s;
}
// All SMs read one array in turn, from different places: it comes from L2.
__global__ void from_l2(const float4* __restrict__ in, float* out, int elements, int rounds) {
  float s = 0;
  int stride = gridDim.x * blockDim.x, first = blockIdx.x * blockDim.x + threadIdx.x;
  for (int r = 0; r < rounds; ++r)
#pragma unroll 4
    for (int i = first; i < elements; i += stride) {
      float4 v = in[(i + r * 7919 * 32) & (elements - 1)];
      s += v.x + v.w;
    }
  if (s == 12345.f) out[threadIdx.x] = s;
}
__global__ void chase(const unsigned* __restrict__ in, unsigned* out, int steps) {
  unsigned at = 0;
  for (int i = 0; i < steps; ++i) at = in[at];
  *out = at;
}

// ---- stencil, gather, atomics ----
__global__ void stencil(const float* __restrict__ in, float* __restrict__ out, int n) {
  int x = 1 + blockIdx.x * blockDim.x + threadIdx.x, y = 1 + blockIdx.y * blockDim.y + threadIdx.y;
  if (x < n - 1 && y < n - 1)
    out[y * n + x] = in[y * n + x] + in[y * n + x - 1] + in[y * n + x + 1] + in[(y - 1) * n + x] + in[(y + 1) * n + x];
}
// A warp a row.
__global__ void gather(const float4* __restrict__ in, const int* __restrict__ index, float4* __restrict__ out, int columns) {
  int r = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  size_t from = (size_t)index[r] * columns;
  for (int i = lane; i < columns; i += 32) out[(size_t)r * columns + i] = in[from + i];
}
__global__ void histogram_shared(const unsigned* __restrict__ in, unsigned* out, int n) {
  __shared__ unsigned bins[256];
  bins[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&bins[in[i] & 255], 1u);
  __syncthreads();
  atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
}
__global__ void histogram_global(const unsigned* __restrict__ in, unsigned* out, int n, unsigned mask) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&out[in[i] & mask], 1u);
}
__global__ void add_atomics(float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&out[i], 1.f);
}

__global__ void rate(unsigned long long* out) {
  unsigned long long t0, t1, c0 = clock64();
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t0));
  do { asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t1)); } while (t1 - t0 < 2000000);
  out[0] = clock64() - c0; out[1] = t1 - t0;
}
__global__ void prepare(unsigned* out, size_t n, unsigned mask, bool number) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
    unsigned h = (unsigned)i * 2654435761u; h ^= h >> 15; h *= 2246822519u; h ^= h >> 13;
    if (number) ((float*)out)[i] = (float)(h & 0xffff) / 65536.f; else out[i] = h & mask;
  }
}

struct Point { std::string name; double bytes; std::function<void()> launch; };

int main(int argc, char** argv) {
  bool once = argc == 3 && !strcmp(argv[1], "once"), list = argc == 2 && !strcmp(argv[1], "list");
  int device = 0, sms = 0;
  CHECK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
  const size_t MB = 1 << 20, SIZE = 256 * MB;
  float *a, *b, *c, *out; unsigned *index, *flush, *keys;
  CHECK(cudaMalloc(&a, SIZE * 2)); CHECK(cudaMalloc(&b, SIZE)); CHECK(cudaMalloc(&c, SIZE * 2));
  CHECK(cudaMalloc(&out, 64 * MB)); CHECK(cudaMalloc(&index, 4 * MB)); CHECK(cudaMalloc(&keys, 64 * MB));
  CHECK(cudaMalloc(&flush, SIZE));
  std::vector<Point> points;
  auto add_point = [&](std::string name, double bytes, std::function<void()> launch) { points.push_back({name, bytes, launch}); };
  const int N = 32 << 20;  // floats of a vector
  for (int k : {1, 2, 4, 8}) {
    std::string s = std::to_string(k);
    add_point("add f32 x1, " + s + " CTAs", 12.0 * N, [=] { add<float, 1><<<k * sms, 256>>>(a, b, c, N); });
    add_point("add f32 x2, " + s + " CTAs", 12.0 * N, [=] { add<float, 2><<<k * sms, 256>>>(a, b, c, N); });
    add_point("add f32 x4, " + s + " CTAs", 12.0 * N, [=] { add<float, 4><<<k * sms, 256>>>(a, b, c, N); });
    add_point("add f32v4 x1, " + s + " CTAs", 12.0 * N, [=] { add<float4, 1><<<k * sms, 256>>>((float4*)a, (float4*)b, (float4*)c, N / 4); });
    add_point("add f32v4 x2, " + s + " CTAs", 12.0 * N, [=] { add<float4, 2><<<k * sms, 256>>>((float4*)a, (float4*)b, (float4*)c, N / 4); });
    add_point("add f32v4 x4, " + s + " CTAs", 12.0 * N, [=] { add<float4, 4><<<k * sms, 256>>>((float4*)a, (float4*)b, (float4*)c, N / 4); });
    add_point("sum x1, " + s + " CTAs", 4.0 * N, [=] { sum<1><<<k * sms, 256>>>((float4*)a, out, N / 4); });
    add_point("sum x4, " + s + " CTAs", 4.0 * N, [=] { sum<4><<<k * sms, 256>>>((float4*)a, out, N / 4); });
  }
  for (int threads : {32, 64, 1024}) {
    std::string s = std::to_string(threads);
    add_point("add f32v4 x1, 2 CTAs of " + s, 12.0 * N, [=] { add<float4, 1><<<2 * sms, threads>>>((float4*)a, (float4*)b, (float4*)c, N / 4); });
  }
  for (int m : {1, 16, 64}) {
    int n = m << 20;
    std::string s = std::to_string(m);
    add_point("add once f32, " + s + "M", 12.0 * n, [=] { add_once<<<n / 256, 256>>>(a, b, c, n); });
    add_point("add once f32v4, " + s + "M", 12.0 * n, [=] { add_once<<<n / 1024, 256>>>((float4*)a, (float4*)b, (float4*)c, n / 4); });
  }
  add_point("fill 256 MB", SIZE, [=] { fill<<<SIZE / 16 / 256, 256>>>((float4*)c, SIZE / 16); });
  const int M = 4 << 20;
  for (int s : {1, 2, 4, 8, 32}) add_point("strided load " + std::to_string(s), 8.0 * M, [=] { strided<<<M / 256, 256>>>(a, c, M, s); });
  add_point("strided load 8, known", 8.0 * M, [=] { strided_known<8><<<M / 256, 256>>>(a, c, M); });
  add_point("strided load 32, known", 8.0 * M, [=] { strided_known<32><<<M / 256, 256>>>(a, c, M); });
  add_point("strided store 2", 8.0 * M, [=] { strided_store<2><<<M / 256, 256>>>(a, c, M); });
  add_point("strided store 8", 8.0 * M, [=] { strided_store<8><<<M / 256, 256>>>(a, c, M); });
  for (int n : {4096, 8192}) {
    std::string s = std::to_string(n);
    dim3 grid(n / 32, n / 32), block(32, 8);
    double bytes = 8.0 * n * n;
    add_point("transpose, rows read, " + s, bytes, [=] { transpose_reads<<<grid, block>>>(a, c, n); });
    add_point("transpose, rows written, " + s, bytes, [=] { transpose_writes<<<grid, block>>>(a, c, n); });
    add_point("transpose, tiled, conflicts, " + s, bytes, [=] { transpose_tiled<0><<<grid, block>>>(a, c, n); });
    add_point("transpose, tiled, " + s, bytes, [=] { transpose_tiled<1><<<grid, block>>>(a, c, n); });
  }
  for (int w : {1024, 4096, 16384}) {
    int rows = N / w;
    std::string s = std::to_string(w);
    add_point("softmax in passes, " + s, 8.0 * N, [=] { softmax_passes<<<rows, 256>>>(a, c, w); });
    add_point("rms norm, a warp a row, " + s, 8.0 * N, [=] { rms_warp<<<rows / 8, 256>>>((float4*)a, (float4*)b, (float4*)c, w / 4); });
  }
  add_point("softmax once, 1024", 8.0 * N, [=] { softmax_once<4><<<N / 1024, 256>>>(a, c, 1024); });
  add_point("softmax once, 4096", 8.0 * N, [=] { softmax_once<16><<<N / 4096, 256>>>(a, c, 4096); });
  add_point("softmax once, 16384", 8.0 * N, [=] { softmax_once<16><<<N / 16384, 1024>>>(a, c, 16384); });
  for (int width : {512, 1024, 2048})
    add_point("masked warps " + std::to_string(width), 8.0 * N, [=] { masked<false><<<8 * sms, 256>>>(a, c, width, N / width); });
  add_point("masked lanes", 8.0 * N, [=] { masked<true><<<8 * sms, 256>>>(a, c, 512, N / 512); });
  for (int n : {1024, 2048, 4096}) {
    std::string s = std::to_string(n);
    dim3 square(n / 16, n / 16), block(16, 16), large(n / 32, n / 32), full(32, 32), wide(n / 256, n), line(256, 1);
    double bytes = 12.0 * n * n;
    add_point("gemm naive 16x16, " + s, bytes, [=] { gemm_naive<false><<<square, block>>>(a, b, c, n); });
    add_point("gemm naive 32x32, " + s, bytes, [=] { gemm_naive<false><<<large, full>>>(a, b, c, n); });
    add_point("gemm naive 256x1, " + s, bytes, [=] { gemm_naive<false><<<wide, line>>>(a, b, c, n); });
    if (n < 4096) add_point("gemm naive, lanes on rows, " + s, bytes, [=] { gemm_naive<true><<<large, full>>>(a, b, c, n); });
    add_point("gemm tiled 16, " + s, bytes, [=] { gemm_tiled<16><<<square, block>>>(a, b, c, n); });
    add_point("gemm tiled 32, " + s, bytes, [=] { gemm_tiled<32><<<large, full>>>(a, b, c, n); });
    add_point("gemm 4x4 a thread, " + s, bytes, [=] { gemm_registers<<<dim3(n / 64, n / 64), 256>>>(a, b, c, n); });
  }
  for (int kb : {16, 64, 128, 192, 224, 256, 512}) {
    std::string s = std::to_string(kb);
    int rounds = 16384 / kb;  // 16 MB an SM
    add_point("window " + s + " KB, f32", 16.0 * MB * sms, [=] { window<float, false><<<sms, 1024>>>(a, out, kb * 256, rounds); });
    add_point("window " + s + " KB, f32v4", 16.0 * MB * sms, [=] { window<float4, false><<<sms, 1024>>>((float4*)a, out, kb * 64, rounds); });
  }
  add_point("window 64 KB, f32v4, 128 threads", 4.0 * MB * sms, [=] { window<float4, false><<<sms, 128>>>((float4*)a, out, 4096, 64); });
  add_point("window 512 KB, f32v4, common", 16.0 * MB * sms, [=] { window<float4, true><<<sms, 1024>>>((float4*)a, out, 32768, 32); });
  for (int mb : {4, 16, 32}) add_point("L2 window " + std::to_string(mb) + " MB", 1024.0 * MB, [=] { from_l2<<<2 * sms, 1024>>>((float4*)a, out, mb * 65536, 1024 / mb); });
  add_point("stencil 8192", 8.0 * 8192 * 8192, [=] { stencil<<<dim3(256, 1024), dim3(32, 8)>>>(a, c, 8192); });
  add_point("stencil 8192, 256x1", 8.0 * 8192 * 8192, [=] { stencil<<<dim3(32, 8192), dim3(256, 1)>>>(a, c, 8192); });
  add_point("gather rows of 128 floats", 8.0 * 262144 * 128, [=] { gather<<<32768, 256>>>((float4*)a, (int*)index, (float4*)c, 32); });
  add_point("gather rows of 512 floats", 8.0 * 65536 * 512, [=] { gather<<<8192, 256>>>((float4*)a, (int*)index, (float4*)c, 128); });
  const int H = 16 << 20;
  add_point("histogram in shared memory, 4 CTAs", 4.0 * H, [=] { histogram_shared<<<4 * sms, 256>>>(keys, (unsigned*)out, H); });
  add_point("histogram of 256 bins in L2", 4.0 * M, [=] { histogram_global<<<8 * sms, 256>>>(keys, (unsigned*)out, M, 255); });
  add_point("histogram of 1M bins in L2", 4.0 * H, [=] { histogram_global<<<8 * sms, 256>>>(keys, (unsigned*)out, H, (1 << 20) - 1); });
  add_point("atomics, one a word", 4.0 * H, [=] { add_atomics<<<H / 256, 256>>>(out, H); });
  add_point("chase in L1, 4000 loads", 16000, [=] { chase<<<1, 1>>>((unsigned*)b, (unsigned*)out, 4000); });

  if (list) { for (auto& p : points) puts(p.name.c_str()); return 0; }
  if (once) {
    for (auto& p : points) if (p.name.find(argv[2]) != std::string::npos) { p.launch(); CHECK(cudaGetLastError()); CHECK(cudaDeviceSynchronize()); }
    return 0;
  }
  prepare<<<4096, 256>>>((unsigned*)a, SIZE * 2 / 4, 0, true);
  prepare<<<4096, 256>>>((unsigned*)b, SIZE / 4, 0, true);
  prepare<<<4096, 256>>>(index, 4 * MB / 4, 262143 / 4, false);
  prepare<<<4096, 256>>>(keys, 64 * MB / 4, 0xffffffff, false);
  CHECK(cudaMemset(c, 0, SIZE * 2)); CHECK(cudaMemset(out, 0, 64 * MB));
  unsigned long long* clocks; unsigned long long host[2];
  CHECK(cudaMalloc(&clocks, 16));
  auto ghz = [&] { rate<<<1, 1>>>(clocks); CHECK(cudaMemcpy(host, clocks, 16, cudaMemcpyDeviceToHost)); return (double)host[0] / host[1]; };
  cudaDeviceProp properties; CHECK(cudaGetDeviceProperties(&properties, 0));
  printf("# %s, %d SMs. SM clock by clock64 over globaltimer: %.3f GHz at the start\n", properties.name, sms, ghz());
  printf("name,bytes,us\n");
  cudaEvent_t begin, end; CHECK(cudaEventCreate(&begin)); CHECK(cudaEventCreate(&end));
  for (auto& p : points) {
    if (p.name.rfind("chase", 0) == 0) CHECK(cudaMemset(b, 0, MB));
    std::vector<float> times;
    for (int i = 0; i < 22; ++i) {
      CHECK(cudaMemsetAsync(flush, i, SIZE));
      CHECK(cudaEventRecord(begin)); p.launch(); CHECK(cudaEventRecord(end));
      CHECK(cudaEventSynchronize(end));
      float ms; CHECK(cudaEventElapsedTime(&ms, begin, end)); if (i >= 2) times.push_back(ms * 1000);
    }
    CHECK(cudaGetLastError());
    std::sort(times.begin(), times.end());
    printf("\"%s\",%.0f,%.2f\n", p.name.c_str(), p.bytes, (times[9] + times[10]) / 2);
    fflush(stdout);
  }
  printf("# %.3f GHz at the end\n", ghz());
}
