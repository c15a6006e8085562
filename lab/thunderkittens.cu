// A launch of one of ThunderKittens' educational GEMMs, in the place of its launch.cu, which also computes on the host.
#include <cuda_runtime.h>

int main() {
    const size_t n = 4096;
    __nv_bfloat16 *operands[3];
    for (auto &operand : operands) cudaMalloc(&operand, n * n * sizeof(*operand));
    matmul(operands[0], operands[1], operands[2], n);
    return cudaDeviceSynchronize();
}
