"""Measurements. This package imports all others, and none imports it.

- Speed: `judging` (a whole run), `emulator` (launches).
- The clock against GPUs: `clock`, `fa4`, `hopper`, `cuda_programs`, `flashmla_prefill`, `prediction_errors`;
  programs in `microbenchmarks` and `blackwell`; measurements in `data/`.
- The emulator and the kernel on a GPU: `silicon`, `gpu`, `gpu_host`, `kernel_bits`, `flashmla_gpu`, `decode_rows`.
- The kernel: `mutants/` (wrong versions of it), `budget`, `layout`, `choices`, `goals`, `peers`.
- Programs of others: `bugs/`, `flashmla`.
- Files that commands write: `pages` (blocks of the documentation), `checks` (LLVM IR), `size` (limits.toml).
"""
