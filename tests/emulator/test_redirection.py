"""NVIDIA's libraries that a program brings along: the static runtime, NVRTC and nvJitLink."""

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest
from cuda.bindings._internal import runtime as bindings
from ptx_launch import launch

import emulator
from emulator.bridge.driver import NotEmulated
from emulator.host import c_hosts
from emulator.host.loaded import loaded_object
from emulator.host.redirection import runtime_functions
from emulator.host.session import emulated_host

STATIC = """
#define HIDDEN __attribute__((noipa, visibility("hidden")))
#include <dlfcn.h>
#include <semaphore.h>
#include <sys/mman.h>
void *imported[] = {(void *)dlsym, (void *)dlclose, (void *)shm_unlink, (void *)sem_timedwait};
volatile const char *told;
HIDDEN int initialise() { told = "driver"; return 35; }
HIDDEN int cudaMalloc(void **at, unsigned long size) { int e = initialise(); told = "cudaMalloc"; *at = 0; return e; }
HIDDEN int cudaFree(void *at) { int e = initialise(); told = "cudaFree"; return e; }
HIDDEN int cudaGetDevice(int *device) { int e = initialise(); told = "cudaGetDevice"; return e; }
HIDDEN int log_an_error() { told = "cudaMalloc"; return 7; }
int allocate(void **at) { int device = 0; return cudaGetDevice(&device) + cudaMalloc(at, 64) + cudaFree(*at); }
int report() { return log_an_error(); }
"""
NVRTC = "int nvrtcGetPTX(){return 1;} int nvrtcGetPTXSize(){return 2;} int nvrtcGetCUBIN(){return 3;}"
PTX = b".version 8.8\n.target sm_100a\n.address_size 64\n.visible .entry k() { ret; }\n\0"


def library(path: Path, source: str) -> str:
    command = ["g++", "-shared", "-fPIC", "-O1", "-falign-functions=16", "-s", "-x", "c++", "-", "-o", str(path)]
    subprocess.run(command, input=f'extern "C" {{{source}}}' if path.name.startswith("libnvrtc") else source, text=True)
    return str(path)


@pytest.mark.compiler
def test_a_stripped_library_with_the_static_runtime_uses_the_emulated_device(tmp_path) -> None:
    source = STATIC.replace("int allocate", 'extern "C" int allocate').replace("int report", 'extern "C" int report')
    own = ctypes.CDLL(library(tmp_path / "wheel.so", source))
    at = ctypes.c_void_p()
    outside = own.allocate(ctypes.byref(at))
    assert outside >= 35 and not at.value
    with emulated_host(), emulator.emulate():
        assert own.allocate(ctypes.byref(at)) == 0 and at.value
        assert own.report() == 7, "a function that has the name of another is left as it is"
        at.value = None
        late = ctypes.CDLL(library(tmp_path / "late.so", source))
        assert late.allocate(ctypes.byref(at)) == 0 and at.value
    assert own.allocate(ctypes.byref(at)) != 0 and not at.value


@pytest.mark.compiler
def test_a_driver_that_was_loaded_before_is_the_emulated_one(tmp_path) -> None:
    counting = 'extern "C" int cuDeviceGetCount(int *count) { *count = 8; return 999; }'
    nvidias = ctypes.CDLL(library(tmp_path / "libcuda.so.1", counting))
    count = ctypes.c_int()
    with emulated_host(), emulator.emulate():
        assert (nvidias.cuDeviceGetCount(ctypes.byref(count)), count.value) == (0, 1)
    assert (nvidias.cuDeviceGetCount(ctypes.byref(count)), count.value) == (999, 8)


def test_the_functions_of_nvidias_runtime_are_found() -> None:
    found = runtime_functions(loaded_object(ctypes.CDLL(bindings.__file__)).base)
    assert len(set(found.values())) == len(found) > 300
    assert {"cudaMalloc", "cudaMemcpyAsync", "cudaLaunchKernel", "cudaGetLastError"} <= set(found.values())


@pytest.mark.compiler
def test_nvrtc_returns_ptx_for_machine_code(tmp_path) -> None:
    nvrtc = ctypes.CDLL(library(tmp_path / "libnvrtc.so.13", f"{NVRTC} int nvrtcGetCUBINSize(){{return 4;}}"))
    sizes = lambda: (nvrtc.nvrtcGetCUBIN(), nvrtc.nvrtcGetCUBINSize())  # noqa: E731
    assert sizes() == (3, 4)
    with emulated_host():
        assert sizes() == (1, 2)
    assert sizes() == (3, 4)


def test_nvjitlink_returns_the_ptx_of_its_only_module() -> None:
    with emulated_host(), emulator.emulate() as device:
        link = ctypes.CDLL("libnvJitLink.so.13")
        handle, size = ctypes.c_void_p(), ctypes.c_size_t()
        options = (ctypes.c_char_p * 1)(b"-arch=sm_100")
        assert link.nvJitLinkCreate(ctypes.byref(handle), 1, options) == 0
        assert link.nvJitLinkAddData(handle, 2, PTX, ctypes.c_size_t(len(PTX)), b"k") == 0
        assert link.nvJitLinkComplete(handle) == 0
        link.nvJitLinkGetLinkedCubinSize(handle, ctypes.byref(size))
        code = ctypes.create_string_buffer(size.value)
        link.nvJitLinkGetLinkedCubin(handle, code)
        assert code.raw == PTX
        link.nvJitLinkAddData(handle, 2, PTX, ctypes.c_size_t(len(PTX)), b"again")
        assert link.nvJitLinkComplete(handle) != 0
        assert isinstance(device.error, NotEmulated) and "linking 2 modules" in str(device.error)
        device.error = None


def test_a_kernel_compiled_into_a_library_is_rejected_by_the_library_s_name() -> None:
    with emulated_host(), emulator.emulate():
        runtime = c_hosts.runtime()
        runtime.redirected[1000, 2000] = "libcurand.so.10"
        with pytest.raises(NotEmulated, match=r"compiled into libcurand\.so\.10"):
            runtime._kernel(1500)


GRID = b""".version 8.6
.target sm_100a
.address_size 64
.extern .func  (.param .b64 func_retval0) cudaCGGetIntrinsicHandle
(
    .param .b32 cudaCGGetIntrinsicHandle_param_0
)
;
.extern .func  (.param .b32 func_retval0) cudaCGSynchronize (.param .b64 p0, .param .b32 p1);
.visible .entry k(.param .u64 out)
{
    .reg .pred %p<2>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [out]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %nctaid.x; mov.u32 %r3, %tid.x;
    mov.b32 %r8, 1;
    { .param .b32 s; .param .b64 h; st.param.b32 [s], %r8;
      call.uni (h), cudaCGGetIntrinsicHandle, (s); ld.param.b64 %rd2, [h]; }
    mul.wide.u32 %rd3, %r1, 4; add.s64 %rd3, %rd1, %rd3; setp.eq.u32 %p1, %r3, 0;
    @%p1 st.global.u32 [%rd3], %r1;
    { .param .b64 h; .param .b32 f; .param .b32 e; st.param.b64 [h], %rd2; st.param.b32 [f], %r8;
      call.uni (e), cudaCGSynchronize, (h, f); }
    add.u32 %r4, %r1, 1; rem.u32 %r4, %r4, %r2; mul.wide.u32 %rd4, %r4, 4; add.s64 %rd4, %rd1, %rd4;
    ld.global.u32 %r5, [%rd4]; mul.wide.u32 %rd5, %r2, 4; add.s64 %rd3, %rd3, %rd5;
    @%p1 st.global.u32 [%rd3], %r5;
    ret;
}
\0"""


def test_a_grid_is_synchronised_by_the_device_runtime() -> None:
    with emulated_host(), emulator.emulate() as device:
        link = ctypes.CDLL("libnvJitLink.so.13")
        handle, size = ctypes.c_void_p(), ctypes.c_size_t()
        assert link.nvJitLinkCreate(ctypes.byref(handle), 0, None) == 0
        for kind, content in ((2, GRID), (6, b"!<arch>\ncuda_device_runtime.o/ ")):
            assert link.nvJitLinkAddData(handle, kind, content, ctypes.c_size_t(len(content)), b"") == 0
        assert link.nvJitLinkComplete(handle) == 0, device.error
        link.nvJitLinkGetLinkedCubinSize(handle, ctypes.byref(size))
        code = ctypes.create_string_buffer(size.value)
        link.nvJitLinkGetLinkedCubin(handle, code)
    out = np.zeros((2, 5), np.uint32)
    launch(code.value.decode(), [out], grid=(5, 1, 1), block=(64, 1, 1), cooperative=True)
    assert out[1].tolist() == [1, 2, 3, 4, 0]
