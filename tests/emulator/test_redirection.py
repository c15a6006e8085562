"""NVIDIA's libraries that a program brings along: the static runtime, NVRTC and nvJitLink."""

import ctypes
import subprocess
from pathlib import Path

import pytest
from cuda.bindings._internal import runtime as bindings

import emulator
from emulator.bridge.driver import NotEmulated
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
