// Small correct programs, to see which orders compute-sanitizer knows: `sanitizer NAME`, under synccheck or racecheck.
//
//   nvcc -gencode=arch=compute_90a,code=sm_90a -lineinfo -o sanitizer lab/sanitizer.cu
//   compute-sanitizer --tool synccheck ./sanitizer inc
//   compute-sanitizer --tool racecheck ./sanitizer dsmem
#include <cooperative_groups.h>
#include <cstdint>
#include <cstdio>
#include <cstring>
namespace cg = cooperative_groups;

__device__ uint32_t shared_address(const void* p) { return (uint32_t)__cvta_generic_to_shared(p); }

__device__ void wait(uint32_t bar, uint32_t phase) {
    asm volatile("{ .reg .pred done;\n again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 " @!done bra again; }" ::"r"(bar), "r"(phase) : "memory");
}

// 32 threads of warp 0 copy 16 bytes each to a slot, which warp 1 reads after the mbarrier, four times.
// WAIT: each thread waits for its copies and arrives. NOINC: the copies of each thread arrive when they complete. INC: so
// they do, but each increments the pending count first, and the barrier expects one arrival of the warp beside them.
enum Way { WAIT, NOINC, INC };
template <Way WAY>
__global__ void copies(const uint4* in, uint4* out) {
    __shared__ alignas(16) uint4 slot[32];
    __shared__ alignas(8) uint64_t full, empty;
    uint32_t full_at = shared_address(&full), empty_at = shared_address(&empty), lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(full_at), "r"(WAY == INC ? 1 : 32));
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 32;" ::"r"(empty_at));
    }
    __syncthreads();
    for (uint32_t i = 0; i < 4; i++) {
        if (threadIdx.x < 32) {
            if (i > 0) wait(empty_at, (i - 1) & 1);
            const uint4* from = &in[32 * i + lane];
            uint32_t to = shared_address(&slot[lane]);
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
            if (WAY == WAIT)
                asm volatile("cp.async.wait_all;\n mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(full_at) : "memory");
            if (WAY == NOINC)
                asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(full_at) : "memory");
            if (WAY == INC) {
                asm volatile("cp.async.mbarrier.arrive.shared::cta.b64 [%0];" ::"r"(full_at) : "memory");
                __syncwarp();
                if (lane == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(full_at) : "memory");
            }
        } else {
            wait(full_at, i & 1);
            out[32 * i + lane] = slot[31 - lane];
            asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(empty_at) : "memory");
        }
    }
}

// Each CTA of a cluster writes its shared memory, and reads that of the other after a cluster barrier: twice. With
// CLUSTER=false the barrier and the memory are those of the CTA alone.
template <bool CLUSTER>
__global__ void exchange(float* out) {
    __shared__ float part[128];
    cg::cluster_group cluster = cg::this_cluster();
    unsigned rank = cluster.block_rank();
    const float* other = CLUSTER ? cluster.map_shared_rank(part, rank ^ 1) : part;
    for (int i = 0; i < 2; i++) {
        part[threadIdx.x] = i + 10.0f * rank + threadIdx.x;
        if (CLUSTER) cluster.sync(); else __syncthreads();
        out[256 * i + 128 * rank + threadIdx.x] = other[127 - threadIdx.x];
        if (CLUSTER) cluster.sync(); else __syncthreads();
    }
}

// Two warpgroups hand a value of each thread to the other in turn, three times: one writes and arrives at a named barrier
// where the other waits. MEET: then both wait at a third barrier, write, wait there again, and read.
template <bool MEET>
__global__ void handover(float* out) {
    __shared__ float part[2][128];
    unsigned group = threadIdx.x / 128, lane = threadIdx.x % 128;
    for (int i = 0; i < 3; i++) {
        if (group == 1) {
            asm volatile("bar.sync 1, 256;" ::: "memory");
            out[128 + lane] = part[0][127 - lane];
        }
        part[group][lane] = i + 10.0f * group + lane;
        asm volatile("bar.arrive %0, 256;" ::"r"(group + 1) : "memory");
        if (group == 0) {
            asm volatile("bar.sync 2, 256;" ::: "memory");
            out[lane] = part[1][127 - lane];
        }
    }
    if (MEET) {
        asm volatile("bar.sync 3, 256;" ::: "memory");
        part[group][lane] = 2 + 10.0f * group + lane;
        asm volatile("bar.sync 3, 256;" ::: "memory");
        out[threadIdx.x] = part[group ^ 1][127 - lane];
    }
}

int main(int argc, char** argv) {
    const char* name = argc > 1 ? argv[1] : "";
    static uint32_t host[512];
    for (uint32_t i = 0; i < 512; i++) host[i] = i;
    uint32_t *in, *out;
    cudaMalloc(&in, sizeof host), cudaMalloc(&out, sizeof host);
    cudaMemcpy(in, host, sizeof host, cudaMemcpyHostToDevice);
    cudaLaunchAttribute pair{cudaLaunchAttributeClusterDimension};
    pair.val.clusterDim = {2, 1, 1};
    cudaLaunchConfig_t config{dim3(2), dim3(128), 0, 0, &pair, 1};
    if (!strcmp(name, "wait")) copies<WAIT><<<1, 64>>>((uint4*)in, (uint4*)out);
    else if (!strcmp(name, "noinc")) copies<NOINC><<<1, 64>>>((uint4*)in, (uint4*)out);
    else if (!strcmp(name, "inc")) copies<INC><<<1, 64>>>((uint4*)in, (uint4*)out);
    else if (!strcmp(name, "dsmem")) cudaLaunchKernelEx(&config, exchange<true>, (float*)out);
    else if (!strcmp(name, "cta")) cudaLaunchKernelEx(&config, exchange<false>, (float*)out);
    else if (!strcmp(name, "handover")) handover<false><<<1, 256>>>((float*)out);
    else if (!strcmp(name, "meet")) handover<true><<<1, 256>>>((float*)out);
    else return fprintf(stderr, "usage: sanitizer wait | noinc | inc | dsmem | cta | handover | meet\n"), 2;
    cudaError_t error = cudaDeviceSynchronize();
    cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
    uint32_t wrong = 0;
    bool hands = strstr("handover meet", name);
    for (uint32_t i = 0; i < (hands ? 256 : 512); i++) {
        uint32_t step = i / 256, rank = i / 128 % 2, other = !strcmp(name, "dsmem") ? rank ^ 1 : rank;
        float exchanged = (hands ? 2 : step) + 10.0f * (hands ? i < 128 : other) + 127 - i % 128;
        uint32_t copied = i / 128 * 128 + (31 - i % 128 / 4) * 4 + i % 4;
        wrong += strstr("wait noinc inc", name) ? host[i] != copied : ((float*)host)[i] != exchanged;
    }
    printf("%s: %s, %u results are wrong\n", name, cudaGetErrorString(error), wrong);
    return error != cudaSuccess || wrong > 0;
}
