"""CUDA C++ compiled at run time as a TVM-FFI module, called with torch's tensors, and captured."""

import torch
import tvm_ffi.cpp

SOURCE = r"""
__global__ void add(float* x, float by, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += by;
}
tvm::ffi::Tensor sum(tvm::ffi::TensorView x, double by) {
  auto out = tvm::ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, x.shape(), x.dtype(), x.device());
  cudaMemcpy(out.data_ptr(), x.data_ptr(), x.numel() * sizeof(float), cudaMemcpyDeviceToDevice);
  add<<<(x.numel() + 127) / 128, 128>>>(static_cast<float*>(out.data_ptr()), by, x.numel());
  return out;
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
module = tvm_ffi.cpp.load_inline("adding", cuda_sources=SOURCE, functions=["add_to", "sum"])
x, graph = torch.zeros(300, device="cuda"), torch.cuda.CUDAGraph()
module.add_to(x, 1.0)
with torch.cuda.graph(graph):
    module.add_to(x, 2.0)
assert (x == 1).all()
graph.replay()
assert (x == 3).all()
made = module.sum(x, 4.0)  # allocated by torch, as TileLang's outputs are
assert isinstance(made, torch.Tensor) and made.is_cuda and (made == 7).all()
print("right")
