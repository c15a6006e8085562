// Microbenchmarks of Hopper in CUDA C++: bursts of loads by all SMs, loads and stores in turn, and attention's wgmma beside
// softmax.
//
// `python -m lab.cuda_programs` compiles them and predicts each launch; lab/data/h200/burst.csv, mixed.csv and turns.csv
// have the times of an H200. On a GPU: nvcc -gencode arch=compute_90a,code=[sm_90a,compute_90a] -O3 -std=c++17 -o hopper
// hopper.cu, then `./hopper burst`, `./hopper mixed` and `./hopper turns` print those files' rows.
#include <cuda.h>
#include <cuda_runtime.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

typedef unsigned long long u64;
typedef unsigned int u32;

static bool emulated = false;
static const int SMS = 132, OUT = 16;  // words of a CTA's results
static const size_t FLUSH = size_t(512) << 20;
static u32 *flushed = nullptr;
static u64 *out = nullptr;

#define CHECK(call)                                                                       \
  do {                                                                                    \
    cudaError_t e_ = (call);                                                              \
    if (e_ != cudaSuccess) {                                                              \
      fprintf(stderr, "%s line %d: %s\n", #call, __LINE__, cudaGetErrorString(e_));       \
      exit(3);                                                                            \
    }                                                                                     \
  } while (0)

// ---- device helpers ----

__device__ __forceinline__ u64 cycles() {
  u64 t;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory");
  return t;
}
__device__ __forceinline__ u32 shared(const void *p) { return static_cast<u32>(__cvta_generic_to_shared(p)); }
__device__ __forceinline__ void init(u32 bar, u32 count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}
__device__ __forceinline__ void init_done() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ __forceinline__ void arrive(u32 bar) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(bar) : "memory");
}
__device__ __forceinline__ void expect(u32 bar, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}
__device__ __forceinline__ void arrive_copies(u32 bar) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(bar) : "memory");
}
__device__ __forceinline__ void wait(u32 bar, u32 parity) {
  asm volatile(
      "{\n.reg .pred p;\nAGAIN: mbarrier.try_wait.parity.shared.b64 p, [%0], %1, 0x989680;\n@p bra DONE;\nbra AGAIN;\nDONE:\n}"
      ::"r"(bar), "r"(parity) : "memory");
}
__device__ __forceinline__ void copy16(u32 to, const char *from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ void copy_box(u32 to, const CUtensorMap *map, int x, int y, u32 bar) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(to),
               "l"(map), "r"(x), "r"(y), "r"(bar) : "memory");
}
__device__ __forceinline__ void store_box(const CUtensorMap *map, int x, int y, u32 from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(x), "r"(y), "r"(from)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
__device__ __forceinline__ u64 nanoseconds() {
  u64 t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)::"memory");
  return t;
}
__global__ void read_all(const uint4 *data, size_t count, u32 *to) {
  u32 sum = 0;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < count; i += size_t(gridDim.x) * blockDim.x) {
    uint4 v = data[i];
    sum += v.x ^ v.y ^ v.z ^ v.w;
  }
  if (sum == 0x12345) *to = sum;
}

// ---- burst: load warps fill a ring of slots of 64 rows of 512 bytes; eight warps wait for each slot and release it ----

static const int KEYS = 64, ROW = 512, SLOTS = 4, CONSUMERS = 8;

struct Loads {
  const char *data;
  u64 *out;
  u32 mask;  // rows - 1
  int tiles; // slots that a CTA loads
  u32 seed;
};

// BY_ROW: four warps copy random rows by cp.async; otherwise one warp loads boxes of 64 columns.
template <bool BY_ROW>
__global__ void __launch_bounds__(32 * (4 + CONSUMERS)) burst(const __grid_constant__ CUtensorMap from, Loads a) {
  extern __shared__ __align__(1024) char ring[];
  __shared__ __align__(8) u64 bars[2 * SLOTS];
  const int WARPS = BY_ROW ? 4 : 1, SLOT = KEYS * ROW, GROUPS = KEYS / 16;
  int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  u32 full = shared(bars), empty = shared(bars + SLOTS);
  if (threadIdx.x == 0) {
    for (int i = 0; i < SLOTS; ++i) init(full + 8 * i, BY_ROW ? 128 : 1), init(empty + 8 * i, CONSUMERS);
    init_done();
  }
  __syncthreads();
  u64 start = cycles();
  int slot = 0;
  u32 parity = 0;
  if (warp < WARPS) {
    u32 random = (a.seed + blockIdx.x * 1024 + warp * 32 + lane / 8) * 0x9E3779B1u;
#pragma unroll 1
    for (int t = 0; t < a.tiles; ++t) {
      u32 at = shared(ring) + slot * SLOT, bar = full + 8 * slot;
      if (BY_ROW) {
        const char *row[GROUPS];
#pragma unroll
        for (int n = 0; n < GROUPS; ++n) {
          random = random * 1664525u + 1013904223u;
          row[n] = a.data + size_t(random >> 8 & a.mask) * ROW + lane % 8 * 16;
        }
        wait(empty + 8 * slot, parity ^ 1);
#pragma unroll
        for (int n = 0; n < GROUPS; ++n)
#pragma unroll
          for (int c = 0; c < ROW / 128; ++c)
            copy16(at + (warp * 16 + n * 4 + lane / 8) * 128 + c * (KEYS * 128) + (lane % 8 ^ lane / 8) * 16, row[n] + c * 128);
        arrive_copies(bar);
      } else {
        wait(empty + 8 * slot, parity ^ 1);
        if (lane == 0) {
          expect(bar, SLOT);
          u32 first = (u32(t) * gridDim.x + blockIdx.x) * KEYS & a.mask;
          for (int c = 0; c < ROW / 128; ++c) copy_box(at + c * (KEYS * 128), &from, c * 64, first, bar);
        }
        __syncwarp();
      }
      if (++slot == SLOTS) slot = 0, parity ^= 1;
    }
    return;
  }
#pragma unroll 1
  for (int t = 0; t < a.tiles; ++t) {
    wait(full + 8 * slot, parity);
    __syncwarp();
    if (lane == 0) arrive(empty + 8 * slot);
    if (++slot == SLOTS) slot = 0, parity ^= 1;
  }
  u64 end = cycles();
  if (threadIdx.x == 32 * WARPS) a.out[blockIdx.x * OUT] = end - start;
}

// ---- mixed: a warp loads slots of 64 rows of 512 bytes; eight warps hold each slot, and store a tile after some of them ----

static const int STAGED = 2048;  // bytes of a warp's staging buffer: 16 rows of 128 bytes

struct Turn {
  u64 *out;
  u32 row_mask, tile_mask;  // rows of the loaded tensor - 1, tiles of the stored one - 1
  int tiles;                // slots that a CTA loads
  int slots;                // of the ring
  int per_store;            // slots between stores of a tile of 64 x 512 bf16; 0: none
  int hold;                 // chains of 32 dependent FMAs for which a slot is held
};

__device__ __forceinline__ float chain(float x, int loops) {
#pragma unroll 1
  for (int i = 0; i < loops; ++i) {
#pragma unroll
    for (int j = 0; j < 32; ++j) asm volatile("fma.rn.f32 %0, %0, %0, %0;" : "+f"(x));
  }
  return x;
}
// Store a warp's 16 rows of half of the columns of a tile, 128 bytes of each row at a time.
__device__ __forceinline__ void store_tile(const CUtensorMap *to, u32 staging, int warp, u32 tile, float value) {
  int lane = threadIdx.x % 32;
#pragma unroll
  for (int group = 0; group < 4; ++group) {
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 4; ++i)
      asm volatile("st.shared.v4.f32 [%0], {%1, %1, %1, %1};" ::"r"(staging + i * 512 + lane * 16), "f"(value) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    if (lane == 0) store_box(to, (warp / 4 * 4 + group) * 64, tile * 64 + warp % 4 * 16, staging);
  }
}

__global__ void __launch_bounds__(32 * (1 + CONSUMERS)) mixed(const __grid_constant__ CUtensorMap from,
                                                              const __grid_constant__ CUtensorMap to, Turn a) {
  extern __shared__ __align__(1024) char pool[];
  __shared__ __align__(8) u64 bars[16];
  const int SLOT = KEYS * ROW;
  int warp = __shfl_sync(~0u, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  u32 full = shared(bars), empty = shared(bars + 8), ring = shared(pool) + CONSUMERS * STAGED;
  if (threadIdx.x == 0) {
    for (int i = 0; i < a.slots; ++i) init(full + 8 * i, 1), init(empty + 8 * i, CONSUMERS);
    init_done();
  }
  __syncthreads();
  u64 start = nanoseconds();
  int slot = 0, until_store = a.per_store;
  u32 parity = 0, stored = blockIdx.x;
  if (warp == 0) {
#pragma unroll 1
    for (int t = 0; t < a.tiles; ++t) {
      u32 first = (u32(t) * gridDim.x + blockIdx.x) * KEYS & a.row_mask, bar = full + 8 * slot;
      wait(empty + 8 * slot, parity ^ 1);
      if (lane == 0) {
        expect(bar, SLOT);
        for (int c = 0; c < ROW / 128; ++c) copy_box(ring + slot * SLOT + c * (KEYS * 128), &from, c * 64, first, bar);
      }
      __syncwarp();
      if (++slot == a.slots) slot = 0, parity ^= 1;
    }
    return;
  }
  --warp;
  float value = 1.0f + lane;
#pragma unroll 1
  for (int t = 0; t < a.tiles; ++t) {
    wait(full + 8 * slot, parity);
    value = chain(value, a.hold);
    __syncwarp();
    if (lane == 0) arrive(empty + 8 * slot);
    if (++slot == a.slots) slot = 0, parity ^= 1;
    if (a.per_store && --until_store == 0) {
      store_tile(&to, shared(pool) + warp * STAGED, warp, stored & a.tile_mask, value);
      stored += gridDim.x, until_store = a.per_store;
    }
  }
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
  u64 end = nanoseconds();
  if (threadIdx.x == 32) a.out[blockIdx.x * OUT] = start, a.out[blockIdx.x * OUT + 1] = end;
  if (value == 0.12345f) a.out[2] = 0;
}

// ---- turns: warpgroups with S = Q K', softmax, O += P V as the kernel has at head dims 64 and 128 ----

#define F4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define F16(d, i) F4(d, i), F4(d, i + 4), F4(d, i + 8), F4(d, i + 12)
#define F32(d) F16(d, 0), F16(d, 16)
#define F64(d) F32(d), F16(d, 32), F16(d, 48)
#define NAMES32 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES64 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define MMA(n) "wgmma.mma_async.sync.aligned.m64n" n "k16.f32.bf16.bf16 "

// S += Q K' with Q in shared memory or in registers, and O += P V for 64 and 128 columns of V.
__device__ __forceinline__ void multiply_qk(float (&d)[64], u64 a, u64 b) {
  asm volatile(MMA("128") "{" NAMES64 "}, %64, %65, 1, 1, 1, 0, 0;" : F64(d) : "l"(a), "l"(b));
}
__device__ __forceinline__ void multiply_qk(float (&d)[64], const u32 *a, u64 b) {
  asm volatile(MMA("128") "{" NAMES64 "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 0;"
               : F64(d) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ __forceinline__ void multiply_pv(float (&d)[32], const u32 *a, u64 b) {
  asm volatile(MMA("64") "{" NAMES32 "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
               : F32(d) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ __forceinline__ void multiply_pv(float (&d)[64], const u32 *a, u64 b) {
  asm volatile(MMA("128") "{" NAMES64 "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 1;"
               : F64(d) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
template <int N> __device__ __forceinline__ void wait_group(float (&d)[32]) {
  asm volatile("wgmma.wait_group.sync.aligned %32;" : F32(d) : "n"(N) : "memory");
}
template <int N> __device__ __forceinline__ void wait_group(float (&d)[64]) {
  asm volatile("wgmma.wait_group.sync.aligned %64;" : F64(d) : "n"(N) : "memory");
}

enum { MAX = 1, EXP = 2, SUM = 4, CONVERT = 8, VOTE = 16, TURNS = 32, QK = 64, PV = 128, ALL = 255 };

__device__ __forceinline__ u64 descriptor(u32 address) {
  return u64((address >> 4) & 0x3FFF) | u64(1) << 16 | u64(64) << 32 | u64(1) << 62;
}

template <int HEAD_DIM, int GROUPS, int PARTS, bool A_SHARED>
__global__ void __launch_bounds__(128 * GROUPS) turns(u64 *result, int rounds, float scale) {
  extern __shared__ __align__(1024) char pool[];
  const int O = HEAD_DIM / 2;
  int group = __shfl_sync(~0u, threadIdx.x / 128, 0), lane = threadIdx.x % 32;
  float s[64], o[O], sum[8], largest[2] = {0, 0}, factor[2] = {1, 1};
  u32 p[32], q[HEAD_DIM / 4];
  for (int i = threadIdx.x; i < 96 * 1024 / 4; i += blockDim.x) reinterpret_cast<u32 *>(pool)[i] = 0;
#pragma unroll
  for (int i = 0; i < 64; ++i) s[i] = scale * i;
#pragma unroll
  for (int i = 0; i < O; ++i) o[i] = scale;
#pragma unroll
  for (int i = 0; i < 8; ++i) sum[i] = scale;
#pragma unroll
  for (int i = 0; i < 32; ++i) p[i] = __float_as_uint(scale);
#pragma unroll
  for (int i = 0; i < HEAD_DIM / 4; ++i) q[i] = __float_as_uint(scale);
  u64 qa = descriptor(shared(pool) + group * 64 * HEAD_DIM * 2), kb = descriptor(shared(pool) + 49152),
      vb = descriptor(shared(pool) + 65536);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  u64 start = cycles();
  if ((PARTS & TURNS) && group == GROUPS - 1) asm volatile("bar.arrive 1, 256;" ::: "memory");
#pragma unroll 1
  for (int i = 0; i < rounds; ++i) {
    if (PARTS & TURNS) asm volatile("bar.sync %0, 256;" ::"r"(1 + group) : "memory");
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    if (PARTS & QK) {
#pragma unroll
      for (int k = 0; k < HEAD_DIM / 16; ++k) {
        if (A_SHARED)
          multiply_qk(s, qa + k * 2, kb + k * 2);
        else
          multiply_qk(s, q + 4 * k, kb + k * 2);
      }
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    if (PARTS & PV) {
#pragma unroll
      for (int k = 0; k < 8; ++k) multiply_pv(o, p + 4 * k, vb + k * 128);
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    if (PARTS & TURNS) asm volatile("bar.arrive %0, 256;" ::"r"(group == GROUPS - 1 ? 1 : 2 + group) : "memory");
    wait_group<1>(s);
    float high[2] = {largest[0], largest[1]};
    bool moved = false;
    if (PARTS & MAX) {
#pragma unroll
      for (int j = 0; j < 64; ++j) high[j / 2 % 2] = fmaxf(high[j / 2 % 2], s[j]);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        high[r] = fmaxf(high[r], __shfl_xor_sync(~0u, high[r], 1));
        high[r] = fmaxf(high[r], __shfl_xor_sync(~0u, high[r], 2));
      }
    }
    if (!(PARTS & VOTE)) largest[0] = high[0], largest[1] = high[1];
    if (PARTS & VOTE) {
      moved = __any_sync(~0u, (high[0] - largest[0]) * scale > 2.0f || (high[1] - largest[1]) * scale > 2.0f);
      if (moved) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(factor[r]) : "f"((largest[r] - high[r]) * scale));
          largest[r] = high[r];
          for (int j = 0; j < 4; ++j) sum[r * 4 + j] *= factor[r];
        }
      }
    }
    if (PARTS & EXP) {
      float shift[2] = {-largest[0] * scale, -largest[1] * scale};
#pragma unroll
      for (int j = 0; j < 64; ++j) {
        float x = fmaf(s[j], scale, shift[j / 2 % 2]);
        asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(s[j]) : "f"(x));
        if (PARTS & SUM) sum[j / 2 % 2 * 4 + j / 4 % 2 * 2 + j % 2] += s[j];
      }
    }
    wait_group<0>(o);
    if (PARTS & CONVERT) {
#pragma unroll
      for (int j = 0; j < 32; ++j) asm volatile("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(p[j]) : "f"(s[2 * j + 1]), "f"(s[2 * j]));
    }
    if ((PARTS & VOTE) && moved) {
#pragma unroll
      for (int j = 0; j < O; ++j) o[j] *= factor[j / 2 % 2];
    }
  }
  u64 end = cycles();
  if ((PARTS & TURNS) && group == 0) asm volatile("bar.sync 1, 256;" ::: "memory");
  float kept = largest[0] + largest[1];
#pragma unroll
  for (int i = 0; i < 64; ++i) kept += s[i];
#pragma unroll
  for (int i = 0; i < O; ++i) kept += o[i];
#pragma unroll
  for (int i = 0; i < 8; ++i) kept += sum[i];
  if (kept == 0.12345f) result[0] = __float_as_uint(kept) + p[0] + lane;
  if (threadIdx.x == 0) result[blockIdx.x * OUT] = end - start;
}


// ---- host ----

typedef CUresult (*Encode)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *, const cuuint64_t *,
                           const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle,
                           CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

// A map of rows of `columns` bf16, boxes of 64 columns and `box_rows` rows.
static CUtensorMap map_of(void *data, u64 rows, u32 columns, u32 box_rows) {
  static Encode encode = nullptr;
  if (encode == nullptr) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    encode = library ? reinterpret_cast<Encode>(dlsym(library, "cuTensorMapEncodeTiled")) : nullptr;
  }
  CUtensorMap map;
  memset(&map, 0, sizeof map);
  cuuint64_t sizes[2] = {columns, rows}, strides[1] = {columns * 2ull};
  cuuint32_t box[2] = {64, box_rows}, ones[2] = {1, 1};
  CUresult bad = encode ? encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, data, sizes, strides, box, ones,
                                 CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)
                        : CUDA_ERROR_NOT_FOUND;
  if (bad) fprintf(stderr, "cuTensorMapEncodeTiled: %d\n", int(bad)), exit(3);
  return map;
}

static void flush() {
  if (emulated) return;
  if (flushed == nullptr) {
    CHECK(cudaMalloc(&flushed, FLUSH));
    CHECK(cudaMemset(flushed, 1, FLUSH));
  }
  read_all<<<SMS * 8, 256>>>(reinterpret_cast<uint4 *>(flushed), FLUSH / 16, flushed);
  CHECK(cudaDeviceSynchronize());
}

static double median(std::vector<double> of) {
  std::sort(of.begin(), of.end());
  return of[of.size() / 2];
}

// The median of the CTAs' cycles.
static double fetched(int ctas) {
  std::vector<u64> words(ctas * OUT);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(words.data(), out, words.size() * 8, cudaMemcpyDeviceToHost));
  std::vector<double> of;
  for (size_t i = 0; i < words.size(); i += OUT) of.push_back(double(words[i]));
  return median(of);
}

static void run_bursts() {
  const size_t bytes = size_t(emulated ? 256 : 1024) << 20;
  char *data = nullptr;
  CHECK(cudaMalloc(&data, bytes));
  if (!emulated) CHECK(cudaMemset(data, 1, bytes));
  CUtensorMap map = map_of(data, bytes / ROW, ROW / 2, KEYS);
  printf("by,tiles,cycles\n");
  u32 seed = 1;
  for (int by_row : {1, 0})
    for (int tiles : {1, 2, 4, 8, 16, 32}) {
      auto kernel = by_row ? burst<true> : burst<false>;
      CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SLOTS * KEYS * ROW));
      std::vector<double> each;
      for (int i = 0; i < (emulated ? 1 : 5); ++i) {
        flush();
        Loads a = {data, out, u32(bytes / ROW - 1), tiles, seed += 1 << 20};
        kernel<<<SMS, 32 * (CONSUMERS + (by_row ? 4 : 1)), SLOTS * KEYS * ROW>>>(map, a);
        each.push_back(fetched(SMS));
      }
      printf("%s,%d,%.0f\n", by_row ? "cp.async" : "box", tiles, median(each));
    }
}

// Nanoseconds from the first CTA's start to the last one's end.
static double span(int ctas) {
  std::vector<u64> words(ctas * OUT);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(words.data(), out, words.size() * 8, cudaMemcpyDeviceToHost));
  u64 first = ~0ull, last = 0;
  for (size_t i = 0; i < words.size(); i += OUT) first = std::min(first, words[i]), last = std::max(last, words[i + 1]);
  return double(last - first);
}

static void run_mixed() {
  const size_t bytes = size_t(emulated ? 1024 : 2048) << 20;
  char *data = nullptr, *stored = nullptr;
  CHECK(cudaMalloc(&data, bytes));
  CHECK(cudaMalloc(&stored, bytes));
  if (!emulated) {
    CHECK(cudaMemset(data, 1, bytes));
    CHECK(cudaMemset(stored, 1, bytes));
  }
  CUtensorMap from = map_of(data, bytes / ROW, ROW / 2, KEYS), to = map_of(stored, bytes / 1024, 512, 16);
  CHECK(cudaFuncSetAttribute(mixed, cudaFuncAttributeMaxDynamicSharedMemorySize, 6 * KEYS * ROW + CONSUMERS * STAGED));
  const int few = 32, many = emulated ? 64 : 128;
  printf("ctas,slots,per_store,hold,ns\n");
  for (int ctas : {SMS, 1})
    for (int slots : {2, 6})
      for (int per_store : {0, 1, 2, 4, 8})
        for (int hold : {0, 8, 16}) {
          std::vector<double> each;
          for (int i = 0; i < (emulated ? 1 : 5); ++i) {
            double spent[2];
            for (int j = 0; j < 2; ++j) {
              flush();
              Turn a = {out, u32(bytes / ROW - 1), u32(bytes / 65536 - 1), j ? many : few, slots, per_store, hold};
              mixed<<<ctas, 32 * (1 + CONSUMERS), slots * KEYS * ROW + CONSUMERS * STAGED>>>(from, to, a);
              spent[j] = span(ctas);
            }
            each.push_back((spent[1] - spent[0]) / (many - few));
          }
          printf("%d,%d,%d,%d,%.1f\n", ctas, slots, per_store, hold, median(each));
        }
}

template <int HEAD_DIM, int GROUPS, int PARTS, bool A_SHARED> static void measure_turns() {
  auto kernel = turns<HEAD_DIM, GROUPS, PARTS, A_SHARED>;
  CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 98304));
  const int few = 20, many = 120;
  std::vector<double> each;
  for (int i = 0; i < (emulated ? 1 : 3); ++i) {
    kernel<<<1, 128 * GROUPS, 98304>>>(out, few, 1.0f);
    double a = fetched(1);
    kernel<<<1, 128 * GROUPS, 98304>>>(out, many, 1.0f);
    each.push_back((fetched(1) - a) / (many - few));
  }
  const char *names[] = {"max", "exp", "sum", "convert", "vote", "turns", "qk", "pv"};
  std::string parts;
  for (int i = 0; i < 8; ++i)
    if (PARTS >> i & 1) parts += (parts.empty() ? "" : "+") + std::string(names[i]);
  printf("%d,%d,%s,%s,%.1f\n", HEAD_DIM, GROUPS, A_SHARED ? "smem" : "registers", parts.c_str(), median(each));
}

template <int HEAD_DIM, int GROUPS> static void measure_parts() {
  measure_turns<HEAD_DIM, GROUPS, QK | PV, true>();
  if constexpr (GROUPS < 3) measure_turns<HEAD_DIM, GROUPS, QK | PV, false>();
  measure_turns<HEAD_DIM, GROUPS, QK, true>();
  measure_turns<HEAD_DIM, GROUPS, PV, true>();
  measure_turns<HEAD_DIM, GROUPS, MAX, true>();
  measure_turns<HEAD_DIM, GROUPS, EXP, true>();
  measure_turns<HEAD_DIM, GROUPS, EXP | SUM, true>();
  measure_turns<HEAD_DIM, GROUPS, EXP | SUM | CONVERT, true>();
  measure_turns<HEAD_DIM, GROUPS, MAX | EXP | SUM | CONVERT, true>();
  measure_turns<HEAD_DIM, GROUPS, MAX | EXP | SUM | CONVERT | VOTE, true>();
  measure_turns<HEAD_DIM, GROUPS, QK | PV | EXP, true>();
  measure_turns<HEAD_DIM, GROUPS, QK | PV | MAX, true>();
  measure_turns<HEAD_DIM, GROUPS, QK | PV | CONVERT, true>();
  measure_turns<HEAD_DIM, GROUPS, QK | PV | EXP | SUM | CONVERT, true>();
  measure_turns<HEAD_DIM, GROUPS, ALL & ~TURNS, true>();
  if constexpr (GROUPS > 1) {
    measure_turns<HEAD_DIM, GROUPS, QK | PV | TURNS, true>();
    measure_turns<HEAD_DIM, GROUPS, ALL, true>();
    if constexpr (GROUPS < 3) measure_turns<HEAD_DIM, GROUPS, ALL, false>();
  }
}

static void run_turns() {
  printf("head_dim,groups,a_from,parts,cycles\n");
  measure_parts<64, 1>();
  measure_parts<64, 2>();
  measure_parts<64, 3>();
  measure_parts<128, 1>();
  measure_parts<128, 2>();
}

int main(int count, char **words) {
  emulated = count > 2 && std::string(words[2]) == "emulated";
  CHECK(cudaMalloc(&out, SMS * OUT * 8));
  CHECK(cudaMemset(out, 0, SMS * OUT * 8));
  if (count > 1 && std::string(words[1]) == "burst") return run_bursts(), 0;
  if (count > 1 && std::string(words[1]) == "mixed") return run_mixed(), 0;
  if (count > 1 && std::string(words[1]) == "turns") return run_turns(), 0;
  fprintf(stderr, "usage: %s burst|mixed|turns [emulated]\n", words[0]);
  return 2;
}
