"""A template that NVRTC compiles, launched by cuda.core on tensors of torch."""

import numpy as np
import torch
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

SOURCE = r"""
template <typename T> __global__ void scaled_add(T a, const T* x, T* y, unsigned n) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] += a * x[i];
}
"""

device = Device()
device.set_current()
stream = device.create_stream()
program = Program(SOURCE, "c++", ProgramOptions(std="c++17", arch="sm_100a"))
compiled = program.compile("ptx", name_expressions=("scaled_add<float>", "scaled_add<double>"))
for dtype, number, name in ((torch.float32, np.float32, "float"), (torch.float64, np.float64, "double")):
    x, y = (torch.rand(1000, device="cuda", dtype=dtype) for _ in range(2))
    wanted = y + 3 * x
    arguments = number(3), x.data_ptr(), y.data_ptr(), np.uint32(1000)
    launch(stream, LaunchConfig(grid=2, block=256), compiled.get_kernel(f"scaled_add<{name}>"), *arguments)
    stream.sync()
    assert torch.allclose(y, wanted)
print("right")
