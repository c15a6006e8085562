"""The emulated libcuda.so.1, libcudart.so and ptxas, as C programs use them."""

import ctypes
import os
import re
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from ptx_launch import kernel

import emulator
from emulator.bridge.callers import Place, caller
from emulator.commands.run import REPORT_EXIT
from emulator.errors import OutOfBounds
from emulator.host.c_library import FOLDER
from emulator.host.session import emulated_host
from emulator.tensors import PACKAGE
from tests.system import program

DOUBLE = kernel(
    "twice",
    ".param .u64 x, .param .u32 n",
    """
.reg .b64 %x, %at; .reg .b32 %i, %c, %v, %n; .reg .pred %p;
ld.param.u64 %x, [x]; ld.param.u32 %n, [n]; mov.u32 %c, %ctaid.x; mov.u32 %i, %tid.x; mad.lo.u32 %i, %c, 32, %i;
setp.ge.u32 %p, %i, %n; @%p ret;
mul.wide.u32 %at, %i, 4; add.u64 %x, %x, %at;
ld.global.u32 %v, [%x]; add.u32 %v, %v, %v; st.global.u32 [%x], %v; ret;
""",
)
NO_DEVICE, NOT_FOUND, NO_BINARY, ILLEGAL_ADDRESS, LAUNCH_FAILED = 100, 500, 209, 700, 719


@pytest.fixture
def device():
    with emulated_host(), emulator.emulate() as device:
        yield device


@pytest.fixture
def cuda(device) -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


@pytest.fixture
def memory(cuda: ctypes.CDLL) -> Callable[[np.ndarray], int]:
    """Return a function that copies an array to the device."""

    def copied(array: np.ndarray) -> int:
        pointer = ctypes.c_uint64()
        assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(array.nbytes)) == 0
        assert cuda.cuMemcpyHtoD_v2(pointer, array.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(array.nbytes)) == 0
        return pointer.value

    return copied


def function(cuda: ctypes.CDLL, image: bytes, name: bytes = b"twice") -> ctypes.c_uint64:
    module, found = ctypes.c_uint64(), ctypes.c_uint64()
    assert cuda.cuModuleLoadData(ctypes.byref(module), image) == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(found), module, name) == 0
    return found


def parameters(*values: ctypes._SimpleCData) -> ctypes.Array:
    """Return an array of pointers to the values, which it keeps alive."""
    kind = ctypes.POINTER(ctypes.c_uint64)
    return (kind * len(values))(*(ctypes.cast(ctypes.pointer(value), kind) for value in values))


def read(cuda: ctypes.CDLL, pointer: int, count: int) -> np.ndarray:
    array = np.zeros(count, np.uint32)
    to = array.ctypes.data_as(ctypes.c_void_p)
    assert cuda.cuMemcpyDtoH_v2(to, ctypes.c_uint64(pointer), ctypes.c_size_t(array.nbytes)) == 0
    return array


def test_the_driver_launches(cuda, memory, device) -> None:
    x = memory(np.arange(40, dtype=np.uint32))
    given = parameters(ctypes.c_uint64(x), ctypes.c_uint32(40))
    assert cuda.cuLaunchKernel(function(cuda, DOUBLE.encode()), 2, 1, 1, 32, 1, 1, 0, None, given, None) == 0
    assert (read(cuda, x, 40) == 2 * np.arange(40)).all()
    assert device.launches[-1].grid == (2, 1, 1)


def test_parameters_in_one_buffer(cuda, memory) -> None:
    x = memory(np.arange(8, dtype=np.uint32))
    buffer = ctypes.create_string_buffer(struct.pack("<QI", x, 8), 12)
    size = ctypes.c_size_t(12)
    extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(buffer), 2, ctypes.addressof(size), 0)
    assert cuda.cuLaunchKernel(function(cuda, DOUBLE.encode()), 1, 1, 1, 32, 1, 1, 0, None, None, extra) == 0
    assert (read(cuda, x, 8) == 2 * np.arange(8)).all()


@pytest.mark.parametrize("hint", [1, 5, 8, 14, 18])
def test_attributes_that_are_hints(cuda, memory, hint) -> None:
    x = memory(np.arange(32, dtype=np.uint32))
    attribute = ctypes.create_string_buffer(struct.pack("<I4xI", hint, 1), 72)
    config = struct.pack("<7I4xQQI4x", 1, 1, 1, 32, 1, 1, 0, 0, ctypes.addressof(attribute), 1)
    given = parameters(ctypes.c_uint64(x), ctypes.c_uint32(32))
    assert cuda.cuLaunchKernelEx(config, function(cuda, DOUBLE.encode()), given, None) == 0


def test_a_report_is_an_error_to_the_program_and_is_kept(cuda, memory, device) -> None:
    x = memory(np.arange(32, dtype=np.uint32))
    given = parameters(ctypes.c_uint64(x), ctypes.c_uint32(64))
    launched = cuda.cuLaunchKernel(function(cuda, DOUBLE.encode()), 2, 1, 1, 32, 1, 1, 0, None, given, None)
    assert launched == ILLEGAL_ADDRESS and isinstance(device.error, OutOfBounds)
    device.error = None


def test_an_error_that_only_the_program_saw_is_raised_at_the_end() -> None:
    with pytest.raises(OutOfBounds), emulated_host(), emulator.emulate():
        library, given = ctypes.CDLL("libcuda.so.1"), parameters(ctypes.c_uint64(64), ctypes.c_uint32(64))
        code = library.cuLaunchKernel(function(library, DOUBLE.encode()), 2, 1, 1, 32, 1, 1, 0, None, given, None)
        assert code == ILLEGAL_ADDRESS


def test_an_error_of_a_kernel_stays(cuda, memory, device) -> None:
    """CUDA returns it from every later call; the next launch does not run."""
    x, launched = memory(np.arange(32, dtype=np.uint32)), function(cuda, DOUBLE.encode())
    given = parameters(ctypes.c_uint64(x), ctypes.c_uint32(64))
    runtime = ctypes.CDLL("libcudart.so.13")
    launch = lambda ctas: cuda.cuLaunchKernel(launched, ctas, 1, 1, 32, 1, 1, 0, None, given, None)  # noqa: E731
    calls = (lambda: launch(2), lambda: launch(1), runtime.cudaDeviceSynchronize, runtime.cudaGetLastError)
    assert [call() for call in (*calls, runtime.cudaGetLastError)] == [ILLEGAL_ADDRESS] * 5
    assert cuda.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(4)) == ILLEGAL_ADDRESS
    (failure,) = device.failures
    assert failure.error is device.error and isinstance(failure.error, OutOfBounds)
    assert (failure.kernel, failure.times) == ("twice", 1)
    device.error = None


def test_what_made_the_program_fail_is_raised() -> None:
    with pytest.raises(emulator.NotEmulated, match="machine code"), emulated_host(), emulator.emulate():
        if ctypes.CDLL("libcuda.so.1").cuModuleLoadData(ctypes.byref(ctypes.c_uint64()), b"\x7fELF") == NO_BINARY:
            raise RuntimeError("no binary for this GPU")


@pytest.mark.long
@pytest.mark.compiler
def test_a_program_of_another_runtime_is_warned_of(tmp_path: Path) -> None:
    """The other runtime was loaded first, as by a CUDA build of torch. In a process of its own."""
    (tmp_path / "empty.c").write_text("int nothing;")
    build = [str(program("compiler")), "-shared", "-fPIC", "empty.c", "-Wl,--no-as-needed"]
    for name, *others in (("libcudart.so.13",), ("extension.so", "libcudart.so.13"), ("other.so",)):
        subprocess.run([*build, *others, "-o", name], cwd=tmp_path, check=True)
    first, *others = (
        f"ctypes.CDLL({str(tmp_path / name)!r})" for name in ("libcudart.so.13", "other.so", "extension.so")
    )
    code = f"import ctypes, torch; {first}; from emulator.host.session import emulated_host\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}with emulated_host(): {'; '.join(others)}"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=600,
        env=os.environ | {"LD_LIBRARY_PATH": str(tmp_path)},
    )
    assert done.returncode == 0
    expected = f"{tmp_path / 'extension.so'} calls {tmp_path / 'libcudart.so.13'}"
    assert expected in done.stderr and "other.so" not in done.stderr, done.stderr


def test_compilers_find_what_they_need_while_a_session_is_open() -> None:
    before = dict(os.environ)
    with emulated_host():
        folder = Path(os.environ["LIBRARY_PATH"].split(os.pathsep)[-1])
        assert (folder / "libcudart.so").resolve().name == "libcudart.so.13"
        assert os.environ["NVCC_APPEND_FLAGS"].endswith("-gencode=arch=compute_100a,code=compute_100a")
    assert os.environ == before


def test_functions_by_name(cuda) -> None:
    found, status = ctypes.c_uint64(), ctypes.c_int()
    ask = lambda name: cuda.cuGetProcAddress_v2(  # noqa: E731
        name, ctypes.byref(found), 12000, ctypes.c_uint64(0), ctypes.byref(status)
    )
    assert ask(b"cuMemAlloc") == 0 and status.value == 0
    pointer = ctypes.c_uint64()
    ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)(found.value)(ctypes.addressof(pointer), 16)
    assert cuda.cuMemFree_v2(pointer) == 0
    count = ctypes.c_int()
    assert ask(b"cuDeviceGetCount") == 0
    ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(found.value)(ctypes.addressof(count))
    assert count.value == 1
    addresses = set()
    for version in (11030, 12030):  # 12.3 added a parameter
        cuda.cuGetProcAddress_v2(b"cuStreamGetCaptureInfo", ctypes.byref(found), version, ctypes.c_uint64(0), None)
        addresses.add(found.value)
    assert len(addresses) == 2 and 0 not in addresses
    assert ask(b"cuNoSuchFunction") == NOT_FOUND and (found.value, status.value) == (0, 1)


def test_a_function_that_is_not_emulated_is_found_and_says_so_when_it_is_called(cuda, device) -> None:
    found = ctypes.c_uint64()
    assert cuda.cuGetProcAddress_v2(b"cuMulticastCreate", ctypes.byref(found), 12000, ctypes.c_uint64(0), None) == 0
    assert ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(found.value)(None, None) != 0
    assert "cuMulticastCreate is not emulated" in str(device.error)
    device.error = None


def test_what_a_session_held_can_be_released_after_it() -> None:
    with emulated_host(), emulator.emulate():
        cuda = ctypes.CDLL("libcuda.so.1")
        pointer = ctypes.c_uint64()
        assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(16)) == 0
    assert cuda.cuMemFree_v2(pointer) == 0 and cuda.cuModuleUnload(None) == 0
    assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(16)) == NO_DEVICE


def test_nvcc_writes_ptx_where_it_is_asked_for_machine_code_alone(tmp_path, monkeypatch) -> None:
    (tmp_path / "nvcc").write_text('#!/bin/sh\necho "$NVCC_APPEND_FLAGS" "$@"\n')
    (tmp_path / "nvcc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    compiled = lambda *options: subprocess.run(["nvcc", *options], capture_output=True, text=True).stdout  # noqa: E731
    with emulated_host():
        assert compiled("--cubin", "-arch=sm_100a", "-o", "a b", "x.cu").split() == [
            "-ptx",
            "-arch=sm_100a",
            "-o",
            "a",
            "b",
            "x.cu",
        ]
        assert compiled("-c", "x.cu").startswith("-gencode=arch=compute_100a")
    assert compiled("--cubin") == " --cubin\n"


def test_nvcc_of_cuda_home_writes_ptx_too(tmp_path, monkeypatch) -> None:
    """TileLang calls the compiler there. The folder's other files are those of the toolkit."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "include").mkdir()
    for name in ("nvcc", "cuobjdump"):
        (tmp_path / "bin" / name).write_text('#!/bin/sh\necho "$0" "$@"\n')
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    for _ in range(2):
        with emulated_host():
            home = Path(os.environ["CUDA_HOME"])
            said = subprocess.run([home / "bin/nvcc", "-cubin"], capture_output=True, text=True).stdout
            assert said == f"{tmp_path / 'bin/nvcc'} -ptx\n"
            assert (home / "include").is_dir() and (home / "bin/cuobjdump").is_file() and home != tmp_path
    assert os.environ["CUDA_HOME"] == str(tmp_path)


def test_pointers_of_the_device(cuda, memory) -> None:
    x = memory(np.zeros(16, np.uint32))
    kind, start = ctypes.c_int(), ctypes.c_uint64()
    assert cuda.cuPointerGetAttribute(ctypes.byref(kind), 2, ctypes.c_uint64(x + 4)) == 0 and kind.value == 2
    assert cuda.cuPointerGetAttribute(ctypes.byref(start), 11, ctypes.c_uint64(x + 4)) == 0 and start.value == x
    assert cuda.cuPointerGetAttribute(ctypes.byref(kind), 2, ctypes.c_uint64(x + 64)) == 1


def test_a_graph_keeps_launches(cuda, memory) -> None:
    x = memory(np.arange(32, dtype=np.uint32))
    stream, graph = ctypes.c_uint64(), ctypes.c_uint64()
    assert cuda.cuStreamCreate(ctypes.byref(stream), 0) == cuda.cuStreamBeginCapture_v2(stream, 0) == 0
    given = parameters(ctypes.c_uint64(x), ctypes.c_uint32(32))
    assert cuda.cuLaunchKernel(function(cuda, DOUBLE.encode()), 1, 1, 1, 32, 1, 1, 0, stream, given, None) == 0
    assert cuda.cuStreamEndCapture(stream, ctypes.byref(graph)) == 0
    assert (read(cuda, x, 32) == np.arange(32)).all()
    for _ in range(2):
        assert cuda.cuGraphLaunch(graph, stream) == 0
    assert (read(cuda, x, 32) == 4 * np.arange(32)).all()


def fat_binary(ptx: bytes, packing: str = "") -> ctypes.Array:
    """Return a fat binary with one PTX text, uncompressed or compressed by a system library."""
    content, flags = ptx, 0x11
    if packing == "zstd":
        library = ctypes.CDLL("libzstd.so.1")
        library.ZSTD_compress.restype = ctypes.c_size_t
        packed = ctypes.create_string_buffer(len(ptx) + 512)
        size = library.ZSTD_compress(packed, ctypes.c_size_t(len(packed)), ptx, ctypes.c_size_t(len(ptx)), 3)
        content, flags = packed.raw[:size], 0x8011
    padded = content + bytes(-len(content) % 8)
    head = struct.pack(
        "<HHIQIIHHIIIQQQ", 1, 0x101, 64, len(padded), len(content), 0, 0, 9, 100, 0, 0, flags, 0, len(ptx)
    )
    image = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 64 + len(padded)) + head + padded
    return ctypes.create_string_buffer(image, len(image))


@pytest.mark.parametrize("packing", ["", "zstd"])
def test_what_nvcc_registers_launches(cuda, memory, device, packing) -> None:
    runtime = ctypes.CDLL("libcudart.so.13")
    image = fat_binary(DOUBLE.encode(), packing)
    wrapper = ctypes.create_string_buffer(struct.pack("<IIQQ", 0x466243B1, 1, ctypes.addressof(image), 0), 24)
    handle = ctypes.c_uint64(runtime.__getattr__("__cudaRegisterFatBinary")(wrapper))
    stub = ctypes.create_string_buffer(1)
    runtime.__getattr__("__cudaRegisterFunction")(handle, stub, b"twice", b"twice", -1, None, None, None, None, None)
    x = memory(np.arange(40, dtype=np.uint32))
    given = parameters(ctypes.c_uint64(x), ctypes.c_uint32(40))

    class Dim3(ctypes.Structure):
        _fields_ = [(name, ctypes.c_uint) for name in "xyz"]

    launch = runtime.cudaLaunchKernel
    launch.argtypes = (ctypes.c_void_p, Dim3, Dim3, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    assert launch(ctypes.addressof(stub), Dim3(2, 1, 1), Dim3(32, 1, 1), given, 0, None) == 0
    assert (read(cuda, x, 40) == 2 * np.arange(40)).all()
    assert launch(ctypes.addressof(wrapper), Dim3(2, 1, 1), Dim3(32, 1, 1), given, 0, None) == 98
    assert launch(ctypes.addressof(stub), Dim3(2, 1, 1), Dim3(32, 1, 1), given, 0, None) == 0
    assert [runtime.cudaDeviceSynchronize(), runtime.cudaGetLastError(), runtime.cudaGetLastError()] == [0, 98, 0]
    runtime.__getattr__("__cudaUnregisterFatBinary")(handle)


HALF, SINGLE = 2, 0


def made(create: Callable[..., int], *arguments: object) -> ctypes.c_uint64:
    handle = ctypes.c_uint64()
    assert create(ctypes.byref(handle), *arguments) == 0
    return handle


@pytest.mark.parametrize(("transposed", "beta"), [(False, 0.0), (True, 0.5)])
def test_a_product_of_cublaslt(cuda, memory, transposed, beta) -> None:
    """Column-major: 3 by 4 with padded columns, times 4 by 2, half precision in, single precision out."""
    cublas = ctypes.CDLL("libcublas.so")
    a, b, c = (np.arange(n, dtype=np.float32) - 3 for n in (16, 8, 6))
    shapes = [(HALF, 4, 3, 4) if transposed else (HALF, 3, 4, 4), (HALF, 4, 2, 4), (SINGLE, 3, 2, 3)]
    library, product = made(cublas.cublasLtCreate), made(cublas.cublasLtMatmulDescCreate, 68, SINGLE)
    layouts = [made(cublas.cublasLtMatrixLayoutCreate, k, *map(ctypes.c_uint64, shape)) for k, *shape in shapes]
    turn = ctypes.byref(ctypes.c_int(transposed))
    assert cublas.cublasLtMatmulDescSetAttribute(product, 3, turn, ctypes.c_size_t(4)) == 0
    results, found = ctypes.create_string_buffer(96), ctypes.c_int()
    given = (*layouts, layouts[2], None, 1, results, ctypes.byref(found))
    assert cublas.cublasLtMatmulAlgoGetHeuristic(library, product, *given) == 0 and found.value == 1
    x, y, z = (ctypes.c_uint64(memory(each)) for each in (a.astype(np.float16), b.astype(np.float16), c))
    alpha, plus = ctypes.byref(ctypes.c_float(2)), ctypes.byref(ctypes.c_float(beta))
    into = (z, layouts[2], z, layouts[2])
    operands = (alpha, x, layouts[0], y, layouts[1], plus, *into, results, None, ctypes.c_size_t(0), None)
    assert cublas.cublasLtMatmul(library, product, *operands) == 0
    left = a[:12].reshape(3, 4) if transposed else a.reshape(4, 4).T[:3]
    wanted = 2 * left @ b.reshape(2, 4).T + beta * c.reshape(2, 3).T
    assert (wanted == read(cuda, z.value, 6).view(np.float32).reshape(2, 3).T).all()


def test_a_product_with_scale_factors_is_refused(cuda, device) -> None:
    cublas = ctypes.CDLL("libcublas.so")
    product = made(cublas.cublasLtMatmulDescCreate, 68, SINGLE)
    mode, a_scale_mode = ctypes.byref(ctypes.c_int(2)), 31
    assert cublas.cublasLtMatmulDescSetAttribute(product, a_scale_mode, mode, ctypes.c_size_t(4)) != 0
    assert isinstance(device.error, emulator.NotEmulated) and "attribute 31" in str(device.error)
    device.error = None


PROGRAM = r"""
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <unistd.h>
extern "C" {
int cuModuleLoadData(void **, const void *); int cuModuleGetFunction(void **, void *, const char *);
int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **,
                   void **);
int cudaMalloc(void **, size_t); int cudaMemcpy(void *, const void *, size_t, int); int cudaMemset(void *, int, size_t);
int cuUnknown();
}
const char *ptx = PTX;
struct Around { Around() { std::cout << "early\n"; } ~Around() { std::cout << "late\n"; } } around;
int main(int argc, char **argv) {
  std::ios_base::sync_with_stdio(false);
  while (getopt(argc, argv, "n:") == 'n') std::cout << "n is " << optarg << std::endl;
  argv += optind - 1, argc -= optind - 1;
  static std::once_flag once; std::call_once(once, [] { std::cout << "once\n"; });
  if (argc == 1) return cuUnknown();
  unsigned n = atoi(argv[1]), *x, y[32] = {0}; void *module, *function, *given[] = {&x, &n};
  cudaMalloc((void **)&x, sizeof y); cudaMemset(x, 1, sizeof y);
  cuModuleLoadData(&module, ptx); cuModuleGetFunction(&function, module, "twice");
  int code = cuLaunchKernel(function, 2, 1, 1, 32, 1, 1, 0, 0, given, 0);
  cudaMemcpy(y, x, sizeof y, 2);
  std::cout << code << " " << std::hex << y[31] << "\n";
  return argc > 2 ? atoi(argv[2]) : 0;
}
"""


@pytest.fixture
def executable(device, tmp_path: Path) -> Path:
    """Build a program that is linked to the libraries, and holds copies of variables of C's and C++'s libraries."""
    text = DOUBLE.replace("\n", "\\n")
    (tmp_path / "program.cpp").write_text(PROGRAM.replace("PTX;", f'"{text}";'))
    libraries = [f"-L{FOLDER}", "-l:libcuda.so.1", "-l:libcudart.so.13", "-Wl,--unresolved-symbols=ignore-all"]
    command = [str(program("compiler")), "program.cpp", "-pie", "-fPIE", "-o", "program", *libraries, "-lstdc++"]
    subprocess.run(command, cwd=tmp_path, check=True)
    return tmp_path / "program"


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["-n", "5", "32", "7"], 7, "n is 5\nonce\n0 2020202\nlate\n"),
        (["64"], REPORT_EXIT, "once\n700 0\nlate\n"),
        ([], 128 + signal.SIGSEGV, "once\n"),
    ],
)
def test_a_program_in_cpp(executable: Path, arguments: list[str], code: int, said: str) -> None:
    command = [sys.executable, "-m", "emulator", "run", str(executable), *arguments]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout) == (code, f"early\n{said}"), done.stderr
    assert ("OutOfBounds" in done.stderr) == (code == REPORT_EXIT)
    ended = (
        "ended with SIGSEGV in main in program, offset 0x[0-9a-f]+, which calls a function that it was linked without"
    )
    assert bool(re.search(ended, done.stderr)) == (not arguments)


CUDA_CORE = """
import numpy as np
from cuda.core import Device, LaunchConfig, ObjectCode, launch

device = Device()
device.set_current()
stream = device.create_stream()
kernel = ObjectCode.from_ptx(PTX).get_kernel("twice")
assert (kernel.num_arguments, kernel.arguments_info[1].offset) == (2, 8)
x = device.allocate(128, stream=stream)
stream.sync()
on_host = np.arange(32, dtype=np.uint32)
from cuda.bindings import driver

once, half = ((kernel, x, np.uint32(count)) for count in (32, 16))
config = LaunchConfig(grid=1, block=32)
builder = device.create_graph_builder().begin_building()
launch(builder, config, *once)
left, right = builder.split(2)
launch(right, config, *half)
graph = left.join(left, right).end_building().complete()
assert driver.cuMemcpyHtoD(int(x.handle), on_host.ctypes.data, 128)[0] == 0
launch(stream, config, *once)
graph.upload(stream)
graph.launch(stream)
stream.sync()
assert driver.cuMemcpyDtoH(on_host.ctypes.data, int(x.handle), 128)[0] == 0
print(on_host.sum(), device.name)
"""


def test_cuda_core(tmp_path: Path) -> None:
    """cuda.core frees its objects after Python has shut down."""
    (tmp_path / "script.py").write_text(f"PTX = {DOUBLE.encode()!r}\n{CUDA_CORE}")
    command = [sys.executable, "-m", "emulator", "run", str(tmp_path / "script.py")]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout) == (0, "2464 NVIDIA B200 (emulated)\n"), done.stderr


def test_private_tables_of_the_driver_are_refused_but_to_nvrtc(cuda, device) -> None:
    table = ctypes.c_uint64(1)
    of_nvrtc = bytes.fromhex("da9151d33ae6cc41a5c04f26d533e328")
    assert cuda.cuGetExportTable(ctypes.byref(table), of_nvrtc) == NOT_FOUND and device.error is None
    assert cuda.cuGetExportTable(ctypes.byref(table), bytes(16)) == LAUNCH_FAILED
    assert "-cudart shared" in str(device.error) and table.value == 0
    device.error = None


def test_a_library_of_machine_code_is_refused_when_it_is_needed(cuda, device) -> None:
    library, kernels = ctypes.c_uint64(), (ctypes.c_uint64 * 1)()
    assert cuda.cuLibraryLoadData(ctypes.byref(library), b"\x7fELF", *[None] * 6) == 0
    assert cuda.cuLibraryEnumerateKernels(kernels, 1, library) == 0
    assert cuda.cuLaunchKernel(ctypes.c_uint64(kernels[0]), 1, 1, 1, 32, 1, 1, 0, None, None, None) == LAUNCH_FAILED
    assert "machine code" in str(device.error)
    device.error = None


def test_ptxas_leaves_ptx_as_it_is(device, tmp_path: Path) -> None:
    (tmp_path / "k.ptx").write_text(DOUBLE)
    ptxas = str(FOLDER / "ptxas")
    subprocess.run([ptxas, "-v", "--gpu-name=sm_100a", "k.ptx", "-o", "k.cubin"], cwd=tmp_path, check=True)
    assert (tmp_path / "k.cubin").read_text() == DOUBLE
    assert "release 13.0" in subprocess.run([ptxas, "--version"], capture_output=True, text=True).stdout


INVALID_VALUE, INVALID_FUNCTION = 1, 98
NO_MAP = (0, 7, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("library", "name", "arguments", "error"),
    [
        ("libcudart.so.13", "cudaFuncSetAttribute", (64, 8, 1024), INVALID_FUNCTION),
        ("libcudart.so.13", "cudaFuncSetCacheConfig", (64, 0), INVALID_FUNCTION),
        ("libcuda.so.1", "cuGraphLaunch", (64, 0), INVALID_VALUE),
        ("libcuda.so.1", "cuTensorMapEncodeTiled", NO_MAP, INVALID_VALUE),
        ("libcuda.so.1", "cuTensorMapEncodeIm2col", (*NO_MAP, 0, 0, 0), INVALID_VALUE),
    ],
)
def test_handles_of_nothing_and_null_pointers(
    library: str, name: str, arguments: tuple[int, ...], error: int, device
) -> None:
    assert getattr(ctypes.CDLL(library), name)(*map(ctypes.c_size_t, arguments)) == error and device.error is None


def test_the_code_that_starts_the_tool_is_not_the_programs() -> None:
    """A program in C++ is called by `ptx-emulator`, whose file lies beside those of the user."""
    found: dict[str, object] = {"caller": caller}
    exec(compile("place = caller()", str(PACKAGE / "commands" / "run.py"), "exec"), found)
    assert not isinstance(found["place"], Place)
    exec(compile("place = caller()", "script.py", "exec"), found)
    assert isinstance(found["place"], Place)
