"""Unmodified programs of other compilers, host code included. Each compiler is installed beside the locked packages."""

import operator
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conftest import MadeOnce
from tests.emulator.located import Planted
from tests.emulator.twins import LAUNCH_PAIRS, LAUNCHES
from tests.tiers import shortened

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"
CUDA = "13.5.37"
NVCC = (
    *(f"nvidia-{part}=={CUDA}" for part in ("cuda-nvcc", "cuda-crt", "cuda-runtime", "nvvm")),
    "nvidia-cuda-cccl==13.3.5.0.6",
)
SCALE = """
#include <iostream>
__global__ void scale(const float *x, double *y) { y[threadIdx.x] = x[threadIdx.x] * 2.5f; }
int main() {
  float h[32], *x;
  double *y;
  for (int i = 0; i < 32; ++i) h[i] = i;
  cudaMalloc(&x, sizeof h), cudaMalloc(&y, 256);
  cudaMemcpy(x, h, sizeof h, cudaMemcpyHostToDevice);
  scale<<<1, 32>>>(x, y);
  std::cout << "ran" << std::endl;
  return cudaDeviceSynchronize();
}
"""

pytestmark = [pytest.mark.long, pytest.mark.compiler, pytest.mark.timeout(1800)]


def run(
    program: Path, folder: Path, *options: str, arguments: Sequence[str] = (), **variables: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "emulator", "run", *options, str(program), *arguments]
    env = os.environ | {"TRITON_CACHE_DIR": str(folder / "cache")} | variables
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=900)


def install(folder: Path, *packages: str) -> None:
    """Install packages into `folder`/site, without their dependencies, which are in the lock."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    done = subprocess.run(
        [*pip, "--no-deps", "--target", str(folder / "site"), *packages], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def triton(made_once: MadeOnce) -> Path:
    return made_once("triton", lambda folder: install(folder, "triton==3.9.0")) / "site"


@pytest.fixture(scope="module")
def nvcc(made_once: MadeOnce) -> Sequence[str]:
    """Return the compiler's command, linked to the installed runtime library."""
    (cuda,) = made_once("nvcc", lambda folder: install(folder, *NVCC)).glob("site/nvidia/cu*")
    code = ("-std=c++17", "-lineinfo", "-gencode", "arch=compute_100a,code=compute_100a")
    (runtime,) = (cuda / "lib").glob("libcudart.so.*")
    return [str(cuda / "bin/nvcc"), *code, "-cudart", "none", f"-L{cuda / 'lib'}", "-Xlinker", f"-l:{runtime.name}"]


@pytest.mark.parametrize("program", ["triton_kernels.py", "gluon_kernels.py"])
def test_triton(program: str, triton: Path, tmp_path: Path) -> None:
    done = run(PROGRAMS / program, tmp_path, PYTHONPATH=str(triton))
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stderr


IN_TRITON = (
    Planted(
        "wrong fill",
        'mask=at < n, other=-float("inf")',
        "mask=at < n, other=0.0",
        r"rows_triton.py:\d+ in softmax_kernel: v = .*other=0\.0\)  \[[\s\S]*constants and parameters: 1\.4\d*, 0\n",
    ),
    Planted(
        "wrong base",
        " * 1.4426950408889634",
        "",
        r"rows_triton.py:\d+ in softmax_kernel: v = v - tl.max\(v, 0\)  \[PTX line \d+: sub\]",
    ),
    Planted(
        "off by one in a loop",
        "range(0, tl.cdiv(K, BK))",
        "range(0, K // BK)",
        r"inputs that reach it\n(?=[\s\S]*  (?:a|args\[0\])\[\d+, 0:96\]\n)[\s\S]*  (?:b|args\[1\])\[0:96, \d+\]\n",
    ),
    Planted(
        "missing mask",
        "rk[None, :], mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.0)",
        "rk[None, :])",
        r"OutOfBounds: [\s\S]*rows_triton.py:\d+ in matmul_kernel: x = tl.load\(a \+ rm",
    ),
)


IN_NORM = (
    Planted(
        "wrong size",
        "mean = tl.sum(v, 0) / n",
        "mean = tl.sum(v, 0) / B",
        r"\[:, 0:100\]\n[\s\S]*in norm_kernel: mean = tl.sum\(v, 0\) / B [\s\S]*parameters: .*\b128\b",
    ),
    Planted(
        "swapped rows",
        "tl.load(index + row)",
        "tl.load(index + (row ^ 1))",
        r"elements of \S+ are wrong: [\s\S]*in gather_kernel: source = tl.load\(index \+ \(row \^ 1\)\)",
    ),
    Planted(
        "double accumulation",
        "acc += tl.dot(x, y)",
        "acc += tl.dot(x, y, acc)",
        r"norm_triton.py:\d+ in split_kernel: acc \+= tl.dot\(x, y, acc\)  \[PTX line \d+: add\]",
    ),
    Planted(
        "swapped strides",
        "rk[:, None] * N + rn[None, :]",
        "rk[:, None] + rn[None, :] * N",
        r"y = tl.load\(b \+ rk\[:, None\] \+ [\s\S]*inputs .*\n(?:.*\n)?  (?:b|args\[1\])\[\d+:\d+, 0:64\]\n",
    ),
    Planted(
        "sums of no zeros",
        'c = torch.zeros(64, 64, device="cuda")',
        'c = torch.empty(64, 64, device="cuda")',
        r"\[\d+, \d+\] is -\d{8}[\s\S]*in split_kernel: tl.atomic_add\([\s\S]*inputs .*\n(?:.*\n)*  (?:c|args\[2\])\[",
    ),
    Planted(
        "stores in place of atomics",
        "tl.atomic_add(c + rm[:, None] * N + rn[None, :], acc)",
        "at = c + rm[:, None] * N + rn[None, :]\n    tl.store(at, tl.load(at) + acc)",
        r"DataRace: [\s\S]*norm_triton.py:\d+ in split_kernel: tl.store\(at, tl.load\(at\) \+ acc\)",
    ),
    Planted(
        "off-by-one mask", "mask = at < n", "mask = at <= n", r"OutOfBounds: [\s\S]*in norm_kernel: tl.store\(y \+ row"
    ),
)


@pytest.mark.parametrize("planted", shortened(0, IN_TRITON + IN_NORM, in_ci=1), ids=operator.attrgetter("name"))
def test_a_fault_in_triton_is_located(planted: Planted, triton: Path, tmp_path: Path) -> None:
    variables = {"PYTHONPATH": str(triton), "TRITON_CACHE_DIR": str(tmp_path / "cache")}
    program = "norm_triton.py" if planted in IN_NORM else "rows_triton.py"
    planted.is_located(planted.plant(program, tmp_path), **variables)


IN_CUDA = (
    Planted(
        "off by one in a reduction",
        "int step = THREADS / 2;",
        "int step = THREADS / 4;",
        r"args\[2\]\[:\][\s\S]*inputs that reach it\n  args\[1\]\[\{0:64, 128:192, 256:300\}\]",
    ),
    Planted(
        "lost tail",
        "i < n; i += blockDim.x",
        "i < n / THREADS * THREADS; i += blockDim.x",
        r"args\[2\]\[:\][\s\S]*inputs that reach it\n  args\[1\]\[0:256\]",
    ),
    Planted(
        "swapped operands",
        "c[i] = a[i] - b[i]",
        "c[i] = b[i] - a[i]",
        r"each about -1 times what is expected\n[\s\S]*rows.cu:\d+: if \(i < n\) c\[i\] = b\[i\] - a\[i\];",
    ),
    Planted(
        "uninitialised accumulator",
        "part[threadIdx.x] = sum;",
        "part[threadIdx.x] += sum;",
        r"UnwrittenRead: [\s\S]*rows.cu:\d+: part\[threadIdx.x\] \+= sum;",
    ),
    Planted(
        "wrong barrier count",
        "  part[threadIdx.x] = sum;\n  __syncthreads();",
        '  part[threadIdx.x] = sum;\n  asm volatile("bar.sync 1, 160;");',
        r"BarrierError: barrier 1 of CTA \(0,0,0\) expects 160 threads; [\s\S]*rows.cu:\d+: asm volatile\(",
    ),
)


IN_SUMS = (
    Planted(
        "aliased arrays",
        "*carried = shared + T / 32",
        "*carried = shared + T / 64",
        r"args\[1\]\[96:128 of every 128\]\n[\s\S]*  sums.cu:\d+: for \(int w = 0; .* carried\[w\] = before, [\s\S]*"
        r"to shared memory 0x414, ",
    ),
    Planted(
        "wrong phase",
        "t / 2 % 2))",
        "t % 2))",
        r"BarrierError: [\s\S]*loaded before, and not used yet: [\s\S]*sums.cu:\d+: sum = sum \* 0.5f \+ buffer",
    ),
    Planted(
        "missing fence",
        "part[blockIdx.x] = s[0];\n    __threadfence();",
        "part[blockIdx.x] = s[0];",
        r"DataRace: [\s\S]*sums.cu:\d+: part\[blockIdx.x\] = s\[0\];[\s\S]*missing +a release of warp 0",
    ),
    Planted(
        "missing barrier",
        "    __syncthreads();\n  }\n  y[threadIdx.x] = sum;",
        "  }\n  y[threadIdx.x] = sum;",
        r"MissingWait: [\s\S]*sums.cu:\d+: sum = sum \* 0.5f [\s\S]*this write came too early",
    ),
    Planted(
        "wrong byte count",
        "&full[t % 2], T * 4);\n      ptx::cp",
        "&full[t % 2], T * 2);\n      ptx::cp",
        r"Deadlock: [\s\S]*  kernel pipeline\(float const\*, [\s\S]*more bytes came than this phase expects",
    ),
    Planted(
        "old tile",
        "x + t * T, T * 4",
        "x + (t & ~1) * T, T * 4",
        r"called at sums.cu:\d+, at sums.cu:\d+: ptx::cp_async_bulk\([\s\S]*\n  args\[0\]\[\d+ of every 256\]\n",
    ),
    Planted("wrong scale", "sum * 0.5f", "sum * 0.25f", r"sums.cu:\d+: sum = sum \* 0.25f [\s\S]*parameters: 0.25, "),
)


@pytest.mark.parametrize("planted", shortened(0, IN_CUDA + IN_SUMS, in_ci=1), ids=operator.attrgetter("name"))
def test_a_fault_in_cuda_is_located(planted: Planted, nvcc: Sequence[str], tmp_path: Path) -> None:
    """The program writes the file of what it compared last."""
    program = planted.plant("sums.cu" if planted in IN_SUMS else "rows.cu", tmp_path)
    subprocess.run([*nvcc, "-I", PROGRAMS, "-o", program.stem, program], cwd=tmp_path, check=True)
    planted.is_located(tmp_path / program.stem, "want.bin")


@pytest.fixture(scope="module")
def gemm(nvcc: Sequence[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("gemm") / "gemm"
    subprocess.run([*nvcc, "-o", program, str(PROGRAMS / "gemm.cu")], check=True)
    return program


@pytest.mark.parametrize("completion", ["lazy", "eager", "random"])
def test_cuda(completion: str, gemm: Path, tmp_path: Path) -> None:
    done = run(gemm, tmp_path, "--completion", completion)
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stderr


def test_a_program_is_predicted(gemm: Path) -> None:
    command = [sys.executable, "-m", "emulator", "time", str(gemm)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert "on the B200 (nothing was measured)" in done.stdout, done.stderr


def test_twins_around_launches(nvcc: Sequence[str], tmp_path: Path) -> None:
    """Both twins of each pair of launches.cu, in one process."""
    command = [*nvcc, "-shared", "-Xcompiler", "-fPIC", "-o", "launches.so", str(LAUNCHES)]
    subprocess.run(command, cwd=tmp_path, check=True)
    command = [sys.executable, str(PROGRAMS / "launches.py"), str(tmp_path / "launches.so")]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, env=env)
    lines = [line for line in done.stdout.splitlines() if not line.isdigit()]
    assert lines == [f"{len(LAUNCH_PAIRS)} pairs"], done.stderr


def test_the_option_of_default_streams(nvcc: Sequence[str], tmp_path: Path) -> None:
    """The pair of the legacy stream needs it: with the option its right twin writes on a stream of its own."""
    command = [
        nvcc[0],
        "-o",
        "launches",
        str(LAUNCHES),
        "-gencode",
        "arch=compute_100a,code=compute_100a",
        "-std=c++17",
    ]
    subprocess.run([*command, "--default-stream", "per-thread"], cwd=tmp_path, check=True)
    done = run(tmp_path / "launches", tmp_path, arguments=["legacy-stream", "safe"])
    assert done.returncode == 3 and "on the per-thread default stream, which wrote it" in done.stderr


def test_a_static_runtime(nvcc: Sequence[str], tmp_path: Path) -> None:
    """nvcc links the static runtime by default. If the program is stripped, its functions cannot be found."""
    command = [nvcc[0], "-o", "gemm", str(PROGRAMS / "gemm.cu"), "-gencode", "arch=compute_100a,code=compute_100a"]
    subprocess.run([*command, "-std=c++17"], cwd=tmp_path, check=True)
    done = run(tmp_path / "gemm", tmp_path)
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stderr
    subprocess.run(["strip", "gemm"], cwd=tmp_path, check=True)
    done = run(tmp_path / "gemm", tmp_path)
    assert done.returncode == 3 and "it is stripped" in done.stderr


def test_the_output_of_a_program_is_blamed(nvcc: Sequence[str], tmp_path: Path) -> None:
    """The program prints through copy relocations of its C++ library, and names no variables."""
    (tmp_path / "scale.cu").write_text(SCALE)
    subprocess.run([*nvcc, "-o", "scale", "scale.cu"], cwd=tmp_path, check=True)
    command = [sys.executable, "-m", "emulator", "blame", "--output", "args[1]", "--element", "17", "scale"]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=900)
    assert done.stdout.startswith("ran\nargs[1][17] is 42.5\ncomputed by, the last line first\n"), done.stderr
    assert "  args[0][17]\n" in done.stdout and "in float64, give 42.5\n" in done.stdout


def test_a_module_of_tvm_ffi(nvcc: Sequence[str], tmp_path: Path) -> None:
    """Linked to the emulated runtime, because NVIDIA's package lacks the unversioned name that linkers need."""
    cuda = str(Path(nvcc[0]).parents[1])
    done = run(PROGRAMS / "ffi_module.py", tmp_path, TVM_FFI_CACHE_DIR=str(tmp_path), CUDA_HOME=cuda)
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stderr


def test_nvrtc(tmp_path: Path) -> None:
    install(tmp_path, "nvidia-cuda-nvrtc==13.3.33")
    (libraries,) = tmp_path.glob("site/nvidia/cu*/lib")
    done = run(PROGRAMS / "nvrtc.py", tmp_path, LD_LIBRARY_PATH=str(libraries))
    assert (done.returncode, done.stdout) == (0, "right\n"), done.stderr


def test_a_broken_cuda_program_is_reported_by_source_line(nvcc: Sequence[str], tmp_path: Path) -> None:
    text = (PROGRAMS / "gemm.cu").read_text()
    line = "      wait(full, it & 1);\n"
    assert text.count(line) == 1
    (tmp_path / "broken.cu").write_text(text.replace(line, ""))
    subprocess.run([*nvcc, "-o", "broken", "broken.cu"], cwd=tmp_path, check=True)
    done = run(tmp_path / "broken", tmp_path)
    assert done.returncode == 3 and done.stdout == "failed: unspecified launch failure\n"
    assert "MissingWait: tcgen05.mma reads shared memory" in done.stderr and "broken.cu:" in done.stderr
