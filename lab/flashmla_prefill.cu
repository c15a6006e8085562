// Launch FlashMLA's sparse prefill once: TOKENS queries of HEADS heads, TOPK distinct random keys of KEYS for each.
// lab/flashmla_prefill.py compiles it with the kernel that it names.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

#include "params.h"
#include PHASE1

static void check(cudaError_t status) {
    if (status != cudaSuccess) {
        fprintf(stderr, "%s\n", cudaGetErrorString(status));
        exit(1);
    }
}

template <class T>
static T *zeros(size_t count) {
    void *memory;
    check(cudaMalloc(&memory, count * sizeof(T)));
    check(cudaMemset(memory, 0, count * sizeof(T)));
    return static_cast<T *>(memory);
}

template <class T>
static T *copied(const std::vector<T> &values) {
    T *memory = zeros<T>(values.size());
    check(cudaMemcpy(memory, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    return memory;
}

static std::vector<int> distinct_keys(std::mt19937 &random) {
    std::vector<int> keys(KEYS), indices;
    std::iota(keys.begin(), keys.end(), 0);
    for (int token = 0; token < TOKENS; token++) {
        for (int i = 0; i < TOPK; i++) std::swap(keys[i], keys[i + random() % (KEYS - i)]);
        indices.insert(indices.end(), keys.begin(), keys.begin() + TOPK);
    }
    return indices;
}

static std::vector<cutlass::bfloat16_t> normal_values(std::mt19937 &random, size_t count) {
    std::normal_distribution<float> normal(0, 0.1f);
    std::vector<cutlass::bfloat16_t> values(count), few(4099);
    for (auto &value : few) value = cutlass::bfloat16_t(normal(random));
    for (size_t i = 0; i < count; i++) values[i] = few[i % few.size()];
    return values;
}

int main() {
    std::mt19937 random(1);
    SparseAttnFwdParams params{};
    params.s_q = TOKENS, params.s_kv = KEYS, params.topk = TOPK;
    params.h_q = HEADS, params.h_kv = 1, params.d_qk = WIDTH, params.d_v = 512;
    params.sm_scale = 1 / 24.0f, params.sm_scale_div_log2 = params.sm_scale * 1.44269504f;
    params.q = copied(normal_values(random, size_t(TOKENS) * HEADS * WIDTH));
    params.kv = copied(normal_values(random, size_t(KEYS) * WIDTH));
    params.indices = copied(distinct_keys(random));
    params.stride_q_s_q = HEADS * WIDTH, params.stride_q_h_q = WIDTH;
    params.stride_kv_s_kv = params.stride_kv_h_kv = WIDTH;
    params.stride_indices_s_q = params.stride_indices_h_kv = TOPK;
    params.out = zeros<cutlass::bfloat16_t>(size_t(TOKENS) * HEADS * 512);
    params.max_logits = zeros<float>(size_t(TOKENS) * HEADS);
    params.lse = zeros<float>(size_t(TOKENS) * HEADS);
    cudaDeviceProp properties;
    check(cudaGetDeviceProperties(&properties, 0));
    params.num_sm = properties.multiProcessorCount;
    CALL(params);
    check(cudaDeviceSynchronize());
}
