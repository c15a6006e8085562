"""cuda.bindings, and CuTeDSL's device queries, on the emulated host."""

import ctypes
import subprocess
import sys
from pathlib import Path
from typing import Any

import cuda.bindings.driver as driver
import cuda.bindings.runtime as runtime
import numpy as np
import pytest
import torch

import emulator
from emulator import NotEmulated
from emulator.host.session import emulated_host

ROOT = Path(__file__).parents[2]
OK, RUNTIME_OK = driver.CUresult.CUDA_SUCCESS, runtime.cudaError_t.cudaSuccess


@pytest.fixture(autouse=True)
def host():
    with emulated_host() as properties:
        yield properties


def ask(result):
    assert result[0] in (OK, RUNTIME_OK)
    return result[1] if len(result) == 2 else result[1:]


ATTRIBUTES = {
    "COMPUTE_CAPABILITY_MAJOR": 10,
    "COMPUTE_CAPABILITY_MINOR": 0,
    "MULTIPROCESSOR_COUNT": 148,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 232448,
    "MAX_THREADS_PER_BLOCK": 1024,
    "INTEGRATED": 0,
}


@pytest.mark.parametrize(("name", "value"), ATTRIBUTES.items())
def test_attributes_agree_between_driver_and_runtime(name, value):
    attribute = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
    assert ask(driver.cuDeviceGetAttribute(attribute, ask(driver.cuDeviceGet(0)))) == value
    assert ask(runtime.cudaDeviceGetAttribute(runtime.cudaDeviceAttr(int(attribute)), 0)) == value


def test_a_stream_has_a_device_and_an_id():
    one, other = (ask(driver.cuStreamCreate(0)) for _ in range(2))
    assert ask(driver.cuStreamGetId(one)) != ask(driver.cuStreamGetId(other))
    cudart, number, device = ctypes.CDLL("libcudart.so.13"), ctypes.c_uint64(), ctypes.c_int(-1)
    assert cudart.cudaStreamGetId(ctypes.c_size_t(int(one)), ctypes.byref(number)) == 0
    assert cudart.cudaStreamGetDevice(ctypes.c_size_t(int(one)), ctypes.byref(device)) == 0
    assert (number.value, device.value) == (ask(driver.cuStreamGetId(one)), 0)


def test_device_questions(host):
    ask(driver.cuInit(0))
    assert ask(driver.cuDeviceGetCount()) == ask(runtime.cudaGetDeviceCount()) == 1
    assert driver.cuDeviceGet(1)[0] == driver.CUresult.CUDA_ERROR_INVALID_DEVICE
    assert ask(driver.cuDeviceGetName(64, 0)).rstrip(b"\0").decode() == host.name
    assert ask(runtime.cudaGetDeviceProperties(0)).multiProcessorCount == 148
    assert int(ask(driver.cuCtxGetCurrent())) == int(ask(driver.cuDevicePrimaryCtxRetain(0))) != 0


def test_memory_goes_to_the_device_and_back():
    data, back = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
    pointer = ask(driver.cuMemAlloc(data.nbytes))
    assert int(pointer) % 256 == 0
    ask(driver.cuMemcpyHtoD(pointer, data.ctypes.data, data.nbytes))
    ask(driver.cuMemcpyDtoH(back.ctypes.data, pointer, back.nbytes))
    assert (back == data).all()
    ask(driver.cuMemsetD32(pointer, 0x3F800000, 100))
    ask(runtime.cudaMemcpy(back, pointer, back.nbytes, runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost))
    assert (back == 1).all()
    ask(driver.cuMemFree(pointer))
    assert driver.cuMemFree(pointer)[0] == driver.CUresult.CUDA_ERROR_INVALID_VALUE


def test_new_memory_is_poisoned():
    pointer = ask(runtime.cudaMalloc(64))
    assert set(ctypes.string_at(int(pointer), 64)) == {0xCB}
    ask(runtime.cudaFree(pointer))


def test_events_measure_time():
    stream = ask(driver.cuStreamCreate(0))
    first, last = ask(driver.cuEventCreate(0)), ask(driver.cuEventCreate(0))
    assert driver.cuEventElapsedTime(first, last)[0] != OK
    ask(driver.cuEventRecord(first, stream))
    ask(driver.cuEventRecord(last, stream))
    assert ask(driver.cuEventElapsedTime(first, last)) > 0


@pytest.mark.parametrize(
    "call", [lambda: driver.cuMulticastCreate(None), lambda: runtime.cudaIpcOpenMemHandle(None, 0)]
)
def test_unknown_calls_are_refused_by_name(call):
    with pytest.raises(NotEmulated, match=r"cuda\.bindings\.\w+\.cu"):
        call()


@pytest.mark.parametrize(
    ("library", "name"),
    [("cuda.so.1", "cuArrayCreate_v2"), ("cuda.so.1", "cuMemcpyHtoA_v2"), ("cudart.so.13", "cudaMalloc3DArray")],
)
def test_a_program_links_functions_that_are_not_emulated(library, name):
    function = getattr(ctypes.CDLL(f"lib{library}"), name)
    with pytest.raises(NotEmulated, match=name.removesuffix("_v2")), emulator.emulate():
        assert function(None, None) != 0


def test_types_stay_what_they_are():
    assert int(driver.CUstream(torch.cuda.current_stream().cuda_stream)) == 0


@pytest.mark.parametrize(("size", "clusters"), [(1, 148), (2, 74), (4, 34), (8, 16)])
def test_cutlass_hardware_info(size, clusters):
    import cutlass.utils

    info = cutlass.utils.HardwareInfo()
    assert info.get_max_active_clusters(size) == clusters
    assert info.get_device_multiprocessor_count() == 148


def test_cutlass_takes_a_tensor_for_device_memory():
    import cutlass.cute as cute
    from cutlass.cute.runtime import from_dlpack

    tensor = torch.zeros(4, 4, device="cuda")
    taken: Any = from_dlpack(tensor)
    assert taken.memspace == cute.AddressSpace.gmem
    assert taken.data_ptr == tensor.data_ptr()


OUTSIDE = """
from cuda.bindings import driver
from emulator.host.session import emulated_host
with emulated_host():
    pass
print(driver.cuInit(0)[0].name)
with emulated_host():
    print(driver.cuDeviceGetCount())
"""


@pytest.mark.long
def test_who_asks_outside_of_a_session_is_answered_within_the_next():
    """cuda.bindings looks its functions up once, at the first call."""
    done = subprocess.run([sys.executable, "-c", OUTSIDE], cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.stdout.splitlines() == ["CUDA_ERROR_NO_DEVICE", "(<CUresult.CUDA_SUCCESS: 0>, 1)"], done.stderr
