// FlashMLA's attention on Hopper as a library that takes pointers, for lab/flashmla_gpu.py. decode_plan and dense_plan
// are launched once for a batch; the other functions are what is timed.
#include <cuda_runtime.h>

#include <algorithm>

#include "params.h"
#include "sm90/decode/dense/splitkv_mla.h"
#include "sm90/decode/sparse_fp8/splitkv_mla.h"
#include "sm90/prefill/sparse/phase1.h"
#include "smxx/decode/combine/combine.h"
#include "smxx/decode/get_decoding_sched_meta/get_decoding_sched_meta.h"

using bf16 = cutlass::bfloat16_t;

static const int VALUES = 512, BLOCK = 64, OVERHEAD_BLOCKS = 5;
static const float LOG2_E = 1.44269504f;

// sink and lengths, of the tokens, may be null.
struct Prefill {
    int tokens, heads, width, keys, topk;
    float scale;
    bf16 *q, *kv, *out;
    int *indices;
    float *max_logits, *lse, *sink;
    int *lengths;
};

// A cache: pages of `page` keys, of which a token lists `topk`.
struct Cache {
    int pages, page, topk;
    bf16 *kv;
    int *indices;
};

// row_bytes: of a key. parts: SMs that share the batch's keys, from decode_parts.
struct Decode {
    int batch, tokens, heads, width, row_bytes, parts;
    bf16 *q, *out;
    float *lse, *lse_parts, *o_parts;
    DecodingSchedMeta *plan;
    int *splits;
    Cache cache, extra;
};

// Decode over all keys of the pages that a block table lists. columns: of the table; lengths: keys of each sequence.
struct Dense {
    int batch, tokens, heads, pages, columns, parts, causal;
    bf16 *q, *kv, *out;
    float *lse, *lse_parts, *o_parts;
    int *table, *lengths;
    DecodingSchedMeta *plan;
    int *splits;
};

extern "C" int decode_parts(int tokens, int heads) {
    int sms;
    cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0);
    return std::max(sms / tokens / (heads / 64), 1);
}

template <int WIDTH>
static void run_prefill(const SparseAttnFwdParams &params) {
    if (params.topk_length) sm90::fwd::run_fwd_phase1_kernel<WIDTH, true>(params);
    else sm90::fwd::run_fwd_phase1_kernel<WIDTH, false>(params);
}

extern "C" int prefill(const Prefill &of, cudaStream_t stream) {
    SparseAttnFwdParams params{};
    params.s_q = of.tokens, params.s_kv = of.keys, params.h_q = of.heads, params.h_kv = 1, params.topk = of.topk;
    params.d_qk = of.width, params.d_v = VALUES;
    params.sm_scale = of.scale, params.sm_scale_div_log2 = of.scale * LOG2_E;
    params.attn_sink = of.sink, params.topk_length = of.lengths;
    params.q = of.q, params.kv = of.kv, params.indices = of.indices, params.out = of.out;
    params.max_logits = of.max_logits, params.lse = of.lse, params.stream = stream;
    params.stride_q_s_q = of.heads * of.width, params.stride_q_h_q = of.width;
    params.stride_kv_s_kv = params.stride_kv_h_kv = of.width;
    params.stride_indices_s_q = params.stride_indices_h_kv = of.topk;
    cudaDeviceGetAttribute(&params.num_sm, cudaDevAttrMultiProcessorCount, 0);
    if (of.width == 576) run_prefill<576>(params);
    else run_prefill<512>(params);
    return cudaGetLastError();
}

extern "C" int decode_plan(const Decode &of, cudaStream_t stream) {
    GetDecodeSchedMetaParams params{};
    params.b = of.batch, params.s_q = of.tokens, params.block_size_n = BLOCK;
    params.fixed_overhead_num_blocks = OVERHEAD_BLOCKS, params.topk = of.cache.topk, params.extra_topk = of.extra.topk;
    params.tile_scheduler_metadata_ptr = of.plan, params.num_splits_ptr = of.splits, params.num_sm_parts = of.parts;
    params.stream = stream;
    smxx::decode::run_get_decoding_sched_meta_kernel(params);
    return cudaGetLastError();
}

template <ModelType MODEL>
static void attend(const SparseAttnDecodeParams &params) {
    using namespace sm90::decode::sparse_fp8;
    if (params.h_q == 64) run_flash_splitkv_mla_fp8_sparse_kernel<MODEL, 64>(params);
    else run_flash_splitkv_mla_fp8_sparse_kernel<MODEL, 128>(params);
}

// The merge of split keys.
template <class Step>
static void merge(const Step &of, cudaStream_t stream) {
    const int rows = of.tokens * of.heads;
    CombineParams merged{};
    merged.b = of.batch, merged.s_q = of.tokens, merged.h_q = of.heads, merged.d_v = VALUES;
    merged.lse = of.lse, merged.out = of.out;
    merged.stride_lse_b = rows, merged.stride_lse_s_q = of.heads;
    merged.stride_o_b = rows * VALUES, merged.stride_o_s_q = of.heads * VALUES, merged.stride_o_h_q = VALUES;
    merged.lse_accum = of.lse_parts, merged.o_accum = of.o_parts;
    merged.stride_lse_accum_split = rows, merged.stride_lse_accum_s_q = of.heads;
    merged.stride_o_accum_split = rows * VALUES, merged.stride_o_accum_s_q = of.heads * VALUES;
    merged.stride_o_accum_h_q = VALUES;
    merged.tile_scheduler_metadata_ptr = of.plan, merged.num_splits_ptr = of.splits, merged.num_sm_parts = of.parts;
    merged.stream = stream;
    smxx::decode::run_flash_mla_combine_kernel<bf16>(merged);
}

extern "C" int decode(const Decode &of, cudaStream_t stream) {
    const int tokens = of.tokens, heads = of.heads, rows = tokens * heads;
    SparseAttnDecodeParams params{};
    params.b = of.batch, params.s_q = tokens, params.h_q = heads, params.h_kv = 1;
    params.d_qk = of.width, params.d_v = VALUES;
    params.sm_scale = 1 / 24.0f, params.sm_scale_div_log2 = params.sm_scale * LOG2_E;
    params.model_type = of.width == 576 ? ModelType::V32 : ModelType::MODEL1;
    params.q = of.q, params.out = of.out, params.lse = of.lse, params.stream = stream;
    params.num_blocks = of.cache.pages, params.page_block_size = of.cache.page, params.topk = of.cache.topk;
    params.kv = of.cache.kv, params.indices = of.cache.indices;
    params.extra_num_blocks = of.extra.pages, params.extra_page_block_size = of.extra.page;
    params.extra_topk = of.extra.topk, params.extra_kv = of.extra.kv, params.extra_indices = of.extra.indices;
    params.stride_q_b = rows * of.width, params.stride_q_s_q = heads * of.width, params.stride_q_h_q = of.width;
    params.stride_kv_block = of.cache.page * of.row_bytes, params.stride_kv_row = of.row_bytes;
    params.stride_extra_kv_block = of.extra.page * of.row_bytes, params.stride_extra_kv_row = of.row_bytes;
    params.stride_indices_b = tokens * of.cache.topk, params.stride_indices_s_q = of.cache.topk;
    params.stride_extra_indices_b = tokens * of.extra.topk, params.stride_extra_indices_s_q = of.extra.topk;
    params.stride_lse_b = params.stride_lse_accum_split = rows;
    params.stride_lse_s_q = params.stride_lse_accum_s_q = heads;
    params.stride_o_b = params.stride_o_accum_split = rows * VALUES;
    params.stride_o_s_q = params.stride_o_accum_s_q = heads * VALUES;
    params.stride_o_h_q = params.stride_o_accum_h_q = VALUES;
    params.lse_accum = of.lse_parts, params.o_accum = of.o_parts;
    params.tile_scheduler_metadata_ptr = of.plan, params.num_splits_ptr = of.splits, params.num_sm_parts = of.parts;
    if (of.width == 576) attend<ModelType::V32>(params);
    else attend<ModelType::MODEL1>(params);

    merge(of, stream);
    return cudaGetLastError();
}

extern "C" int dense_plan(const Dense &of, cudaStream_t stream) {
    GetDecodeSchedMetaParams params{};
    params.b = of.batch, params.s_q = of.tokens, params.block_size_n = BLOCK;
    params.fixed_overhead_num_blocks = OVERHEAD_BLOCKS, params.topk = params.extra_topk = -1;
    params.seqlens_k_ptr = of.lengths;
    params.tile_scheduler_metadata_ptr = of.plan, params.num_splits_ptr = of.splits, params.num_sm_parts = of.parts;
    params.stream = stream;
    smxx::decode::run_get_decoding_sched_meta_kernel(params);
    return cudaGetLastError();
}

extern "C" int dense(const Dense &of, cudaStream_t stream) {
    const int rows = of.tokens * of.heads, width = 576;
    DenseAttnDecodeParams params{};
    params.b = of.batch, params.s_q = of.tokens, params.q_seq_per_hk = rows;
    params.h_q = params.q_head_per_hk = of.heads, params.h_k = 1;
    params.d = width, params.d_v = VALUES;
    params.num_blocks = of.pages, params.page_block_size = BLOCK, params.is_causal = of.causal;
    params.scale_softmax = 1 / 24.0f, params.scale_softmax_log2 = params.scale_softmax * LOG2_E;
    params.q_ptr = of.q, params.k_ptr = of.kv, params.o_ptr = of.out, params.softmax_lse_ptr = of.lse;
    params.q_batch_stride = rows * width, params.q_row_stride = params.q_head_stride = width;
    params.k_batch_stride = BLOCK * width, params.k_row_stride = params.k_head_stride = width;
    params.o_batch_stride = params.o_head_stride = rows * VALUES, params.o_row_stride = VALUES;
    params.block_table = of.table, params.block_table_batch_stride = of.columns;
    params.seqlens_k_ptr = of.lengths;
    params.tile_scheduler_metadata_ptr = of.plan, params.num_sm_parts = of.parts, params.num_splits_ptr = of.splits;
    params.total_num_splits = of.batch + of.parts;
    params.softmax_lseaccum_ptr = of.lse_parts, params.oaccum_ptr = of.o_parts, params.stream = stream;
    sm90::run_flash_splitkv_mla_kernel<bf16>(params);
    merge(of, stream);
    return cudaGetLastError();
}
