// Does an arrival wait for reads of shared memory in flight? Eight warps read, arrive, and a ninth overwrites what they
// read as soon as they have all arrived. Loads of other warps miss the TLB meanwhile, behind which the reads wait.
// Prints for each read, release, step between the two and way to overwrite, how many words were of the next contents.
//
// nvcc -arch=sm_90a -O3 -o reads_in_flight lab/reads_in_flight.cu && ./reads_in_flight [GIB] [ROUNDS]
// An H200 printed 0 for st.shared, for cp.async, for .release.cluster, and with anything between. It printed 100% for a
// bulk copy after the other releases with nothing between, but 50% after ld.shared and the mbarrier.arrive of one lane.
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                                                \
  do {                                                                                             \
    cudaError_t e_ = (call);                                                                       \
    if (e_ != cudaSuccess) fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(e_)), exit(3);    \
  } while (0)

enum Read { LDMATRIX, LD_SHARED };
enum Release { ARRIVE, BAR_SYNC, BAR_ARRIVE, ARRIVE_CLUSTER };
enum Between { NOTHING, PROXY_FENCE, FENCE, USE };
enum Write { BULK, STORE, CP_ASYNC };
const char *reads[] = {"ldmatrix", "ld.shared"}, *writes[] = {"bulk copy", "st.shared", "cp.async"},
           *releases[] = {"mbarrier.arrive", "bar.sync", "bar.arrive", "mbarrier.arrive.release.cluster"},
           *betweens[] = {"nothing", "fence.proxy.async", "fence.acq_rel.cta", "a use"};
const int READERS = 8, OTHERS = 7, THREADS = 32 * (1 + READERS + OTHERS), BYTES = 1024 * READERS, CTAS = 132;

__device__ uint32_t address(const void *p) { return static_cast<uint32_t>(__cvta_generic_to_shared(p)); }
__device__ void init(uint64_t *bar, int count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(address(bar)), "r"(count));
}
__device__ void wait(uint64_t *bar, int parity) {
  asm volatile("{\n.reg .pred p;\nL: mbarrier.try_wait.parity.shared.b64 p, [%0], %1;\n@!p bra L;\n}"
               ::"r"(address(bar)), "r"(parity) : "memory");
}
__device__ void arrive(uint64_t *bar) {
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(address(bar)) : "memory");
}
__device__ void copy(uint32_t to, const uint32_t *from, uint64_t *bar) {
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(address(bar)), "r"(BYTES) : "memory");
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(BYTES), "r"(address(bar)) : "memory");
}

// contents: BYTES of 0x11, of 0x22 and of 0x44. pages: 2 MiB each.
template <int READ, int RELEASE, int BETWEEN, int WRITE>
__global__ void __launch_bounds__(THREADS)
    test(const uint32_t *contents, const uint32_t *pages, uint64_t count, int rounds, unsigned long long *wrong,
         uint32_t *never) {
  __shared__ __align__(1024) uint32_t buffer[BYTES / 4];
  __shared__ uint64_t ready, read, full, done;
  __shared__ volatile int stop;
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) {
    init(&ready, 1), init(&read, READERS), init(&full, WRITE == BULK ? 1 : 32), init(&done, READERS), stop = 0;
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  const bool named = RELEASE == BAR_SYNC || RELEASE == BAR_ARRIVE;
  if (warp == 0) {
    for (int i = 0; i < rounds; i++) {
      const uint32_t *next = contents + BYTES / 4 * (1 + i % 2);
      uint32_t to = address(buffer) + lane * 16;
      asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      __syncwarp();
      if (lane == 0) copy(address(buffer), contents, &ready);
      if (named) asm volatile("bar.sync 1, %0;" ::"n"(32 * (READERS + 1)) : "memory");
      else wait(&read, i & 1);
      if (WRITE == BULK && lane == 0) copy(address(buffer), next, &full);
      for (int j = 0; j < BYTES / 512 && WRITE == STORE; j++)
        asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};"
                     ::"r"(to + j * 512), "r"(i % 2 ? 0x44444444 : 0x22222222) : "memory");
      for (int j = 0; j < BYTES / 512 && WRITE == CP_ASYNC; j++)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                     ::"r"(to + j * 512), "l"(next + j * 128 + lane * 4) : "memory");
      asm volatile("cp.async.wait_all;" ::: "memory");
      if (WRITE != BULK) arrive(&full);
      wait(&full, i & 1), wait(&done, i & 1);
    }
    if (lane == 0) stop = 1;
  } else if (warp <= READERS) {
    unsigned long long bad = 0;
    for (int i = 0; i < rounds; i++) {
      wait(&ready, i & 1);
      uint32_t v[4][4], from = address(buffer) + (warp - 1) * 1024 + lane * 16;
#pragma unroll
      for (int j = 0; j < 4; j++) {
        uint32_t at = (from ^ j / 2 * 16) + j % 2 * 512;
        if (READ == LDMATRIX)
          asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                       : "=r"(v[j][0]), "=r"(v[j][1]), "=r"(v[j][2]), "=r"(v[j][3]) : "r"(at) : "memory");
        else
          asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                       : "=r"(v[j][0]), "=r"(v[j][1]), "=r"(v[j][2]), "=r"(v[j][3]) : "r"(at) : "memory");
      }
      if (BETWEEN == PROXY_FENCE) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
      if (BETWEEN == FENCE) asm volatile("fence.acq_rel.cta;" ::: "memory");
      for (int j = 0; j < 16 && BETWEEN == USE; j++)
        if (v[j / 4][j % 4] == 0x12345678) *never = j;
      uint32_t own;
      asm volatile("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(own) : "r"(address(&read)));
      if (RELEASE == BAR_SYNC) asm volatile("bar.sync 1, %0;" ::"n"(32 * (READERS + 1)) : "memory");
      if (RELEASE == BAR_ARRIVE) asm volatile("bar.arrive 1, %0;" ::"n"(32 * (READERS + 1)) : "memory");
      __syncwarp();
      if (RELEASE == ARRIVE && lane == 0) arrive(&read);
      if (RELEASE == ARRIVE_CLUSTER && lane == 0)
        asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(own) : "memory");
      wait(&full, i & 1);
      uint32_t want = 0x11111111 * (1 + stop);  // read now, so that no value is compared earlier
      for (int j = 0; j < 16; j++) bad += v[j / 4][j % 4] != want;
      __syncwarp();
      if (lane == 0) arrive(&done);
    }
    atomicAdd(wrong, bad);
  } else {
    uint32_t state = blockIdx.x * 7919 + threadIdx.x * 104729 + 1, sum = 0;
    while (!stop) {
      uint32_t x[8];
      for (int j = 0; j < 8; j++) {
        state = state * 1664525 + 1013904223;
        const uint32_t *p = pages + (state >> 4) % count * (size_t(2) << 20) / 4 + state % 512 * 8;
        asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(x[j]) : "l"(p));
      }
      for (int j = 0; j < 8; j++) sum += x[j];
    }
    if (sum == 0x7fffffff) *never = sum;
  }
}

static uint32_t *contents, *pages, *never;
static unsigned long long *wrong;
static int gib, rounds;

template <int READ, int RELEASE, int BETWEEN, int WRITE> void row() {
  unsigned long long found = 0;
  CHECK(cudaMemset(wrong, 0, 8));
  test<READ, RELEASE, BETWEEN, WRITE><<<CTAS, THREADS>>>(contents, pages, uint64_t(gib) << 9, rounds, wrong, never);
  CHECK(cudaMemcpy(&found, wrong, 8, cudaMemcpyDeviceToHost));
  printf("%s,%s,%s,%s,%.4f%%\n", reads[READ], releases[RELEASE], betweens[BETWEEN], writes[WRITE],
         100.0 * found / (16.0 * 32 * READERS * CTAS * rounds));
}
template <int READ, int RELEASE> void rows() {
  row<READ, RELEASE, NOTHING, BULK>(), row<READ, RELEASE, NOTHING, STORE>(), row<READ, RELEASE, NOTHING, CP_ASYNC>();
  row<READ, RELEASE, PROXY_FENCE, BULK>(), row<READ, RELEASE, FENCE, BULK>(), row<READ, RELEASE, USE, BULK>();
}
template <int READ> void all() {
  rows<READ, ARRIVE>(), rows<READ, BAR_SYNC>(), rows<READ, BAR_ARRIVE>(), rows<READ, ARRIVE_CLUSTER>();
}

int main(int argc, char **argv) {
  gib = argc > 1 ? atoi(argv[1]) : 96, rounds = argc > 2 ? atoi(argv[2]) : 20000;
  CHECK(cudaMalloc(&contents, 3 * BYTES));
  for (int i = 0; i < 3; i++) CHECK(cudaMemset(contents + i * BYTES / 4, 0x11 << i, BYTES));
  CHECK(cudaMalloc(&pages, size_t(gib) << 30));
  CHECK(cudaMalloc(&wrong, 8));
  CHECK(cudaMalloc(&never, 4));
  all<LDMATRIX>(), all<LD_SHARED>();
}
