"""CUDA C++ compiled at run time as a TVM-FFI module, called with torch's tensors, and captured."""

import torch
import tvm_ffi.cpp

SOURCE = r"""
__global__ void add(float* x, float by, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += by;
}
void add_to(tvm::ffi::TensorView x, double by) {
  DLDevice device = x.device();
  TVM_FFI_ICHECK_EQ(device.device_type, kDLCUDA);
  cudaStream_t stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  int n = x.size(0);
  add<<<(n + 127) / 128, 128, 0, stream>>>(static_cast<float*>(x.data_ptr()), by, n);
  TVM_FFI_ICHECK_EQ(cudaGetLastError(), cudaSuccess);
}
"""
module = tvm_ffi.cpp.load_inline("adding", cuda_sources=SOURCE, functions=["add_to"])
x, graph = torch.zeros(300, device="cuda"), torch.cuda.CUDAGraph()
module.add_to(x, 1.0)
with torch.cuda.graph(graph):
    module.add_to(x, 2.0)
assert (x == 1).all()
graph.replay()
assert (x == 3).all()
print("right")
