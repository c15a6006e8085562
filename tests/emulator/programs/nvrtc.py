"""Code compiled by NVRTC and launched by cuda.core on torch tensors: CUDA's mathematical functions, against torch's."""

from collections.abc import Callable

import torch
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

N = 256
ANY = (
    "exp exp2 exp10 expm1 sin cos tan sinh cosh tanh atan asinh erf erfc floor ceil trunc rint sinpi cospi normcdf cbrt"
)
POSITIVE = "log log2 log10 log1p sqrt rsqrt lgamma rcbrt acosh"
SMALL = "asin acos atanh erfinv"
TWO = "pow atan2 hypot fmod fdim copysign remainder"
NAMED: dict[str, Callable[..., torch.Tensor]] = {
    "exp10": lambda x: 10**x,
    "sinpi": lambda x: torch.sin(torch.pi * x),
    "cospi": lambda x: torch.cos(torch.pi * x),
    "cbrt": lambda x: x.sign() * x.abs() ** (1 / 3),
    "rcbrt": lambda x: x ** (-1 / 3),
    "normcdf": torch.special.ndtr,
    "rint": torch.round,
    "fdim": lambda x, y: (x - y).clamp(min=0),
    "remainder": lambda x, y: x - y * torch.round(x / y),
}
BOUND = {torch.float64: 1e-14, torch.float32: 5e-7}
"""The bound of the error relative to max(1, |result|): a few of the last bits."""

names = [name for group in (ANY, POSITIVE, SMALL, TWO) for name in group.split()]
source = "".join(
    f"template <typename T> __global__ void of_{name}(const T* x, const T* y, T* out) {{"
    "int i = blockIdx.x * blockDim.x + threadIdx.x;"
    f"out[i] = {name}({'x[i], y[i]' if name in TWO.split() else 'x[i]'}); }}"
    for name in names
)
device = Device()
device.set_current()
stream = device.create_stream()
program = Program(source, "c++", ProgramOptions(std="c++17", arch="sm_100a"))
wanted_kernels = [f"of_{name}<{kind}>" for name in names for kind in ("float", "double")]
compiled = program.compile("ptx", name_expressions=wanted_kernels)

wrong = []
for name in names:
    for kind, dtype in (("float", torch.float32), ("double", torch.float64)):
        torch.manual_seed(1)
        x, y = torch.randn(2, N, dtype=dtype, device="cuda") * 3
        x = 0.99 * x.tanh() if name in SMALL else x.abs() + (1 if name == "acosh" else 0.01) if name in POSITIVE else x
        x = x.abs() if name == "pow" else x
        out = torch.empty_like(x)
        arguments = (x.data_ptr(), y.data_ptr(), out.data_ptr())
        device.sync()  # torch's default stream and cuda.core's streams do not wait for each other
        launch(stream, LaunchConfig(grid=2, block=N // 2), compiled.get_kernel(f"of_{name}<{kind}>"), *arguments)
        stream.sync()
        given = (x.double(), y.double()) if name in TWO.split() else (x.double(),)
        wanted = (NAMED.get(name) or getattr(torch, name))(*given)
        error = ((out.double() - wanted).abs() / wanted.abs().clamp(min=1)).max().item()
        if not error < BOUND[dtype]:
            wrong.append(f"{name} of {kind}: {error}")
print(*wrong or ["right"], sep="\n")
