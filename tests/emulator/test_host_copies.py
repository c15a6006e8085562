"""Copies and fills by the host are checked against the device's allocations, through every API."""

import ctypes
from collections.abc import Callable, Iterator

import cuda.bindings.driver as driver
import cuda.bindings.runtime as runtime
import numpy as np
import pytest
import torch

import emulator
from emulator.host.session import emulated_host

INVALID_VALUE, INVALID_DEVICE, NOT_REGISTERED, SIZE = 1, 101, 713, 64
_Kind = runtime.cudaMemcpyKind
TO_DEVICE, TO_HOST = _Kind.cudaMemcpyHostToDevice, _Kind.cudaMemcpyDeviceToHost
ON_DEVICE, DEFAULT = _Kind.cudaMemcpyDeviceToDevice, _Kind.cudaMemcpyDefault


@pytest.fixture(autouse=True)
def host() -> Iterator[None]:
    with emulated_host():
        yield


@pytest.fixture
def device() -> int:
    return int(driver.cuMemAlloc(SIZE)[1])


@pytest.fixture
def cudart() -> ctypes.CDLL:
    return ctypes.CDLL("libcudart.so.13")


def sized(function: Callable[..., int], *arguments: int) -> int:
    """Call a C function of pointers and sizes."""
    return function(*map(ctypes.c_size_t, arguments))


def pageable(size: int = SIZE + 8) -> np.ndarray:
    return np.arange(size, dtype=np.uint8)


HOST, SINK = pageable(), pageable()
AT, INTO = HOST.ctypes.data, SINK.ctypes.data
CALLS: dict[str, Callable[[int, int], int]] = {
    "cuMemcpyHtoD": lambda at, n: int(driver.cuMemcpyHtoD(at, AT, n)[0]),
    "cuMemcpyDtoH": lambda at, n: int(driver.cuMemcpyDtoH(INTO, at, n)[0]),
    "cuMemcpyDtoD": lambda at, n: int(driver.cuMemcpyDtoD(at, at, n)[0]),
    "cuMemcpyHtoDAsync": lambda at, n: int(driver.cuMemcpyHtoDAsync(at, AT, n, 0)[0]),
    "cuMemcpyDtoHAsync": lambda at, n: int(driver.cuMemcpyDtoHAsync(INTO, at, n, 0)[0]),
    "cuMemcpyDtoDAsync": lambda at, n: int(driver.cuMemcpyDtoDAsync(at, at, n, 0)[0]),
    "cuMemsetD8": lambda at, n: int(driver.cuMemsetD8(at, 1, n)[0]),
    "cuMemsetD16": lambda at, n: int(driver.cuMemsetD16(at, 1, n // 2)[0]),
    "cuMemsetD32": lambda at, n: int(driver.cuMemsetD32(at, 1, n // 4)[0]),
    "cuMemsetD32Async": lambda at, n: int(driver.cuMemsetD32Async(at, 1, n // 4, 0)[0]),
    "cudaMemcpy to": lambda at, n: int(runtime.cudaMemcpy(at, AT, n, TO_DEVICE)[0]),
    "cudaMemcpy from": lambda at, n: int(runtime.cudaMemcpy(INTO, at, n, TO_HOST)[0]),
    "cudaMemcpyAsync within": lambda at, n: int(runtime.cudaMemcpyAsync(at, at, n, ON_DEVICE, 0)[0]),
    "cudaMemset": lambda at, n: int(runtime.cudaMemset(at, 1, n)[0]),
    "cudaMemsetAsync": lambda at, n: int(runtime.cudaMemsetAsync(at, 1, n, 0)[0]),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_what_fits_is_done_and_what_does_not_is_an_error(call: Callable[[int, int], int], device: int) -> None:
    assert [call(device, SIZE), call(device + 8, SIZE - 8), call(device + SIZE, 0)] == [0, 0, 0]
    assert call(device, SIZE + 4) == call(device + 8, SIZE - 4) == INVALID_VALUE
    assert driver.cuMemFree(device)[0] == 0
    assert call(device, 8) == INVALID_VALUE


def test_a_side_that_is_not_named_is_held_against_what_lives_there(device: int) -> None:
    assert driver.cuMemcpy(device, AT, SIZE)[0] == 0
    assert driver.cuMemcpy(device, AT, SIZE + 1)[0] == INVALID_VALUE
    assert runtime.cudaMemcpy(INTO, device, SIZE + 1, DEFAULT)[0] == INVALID_VALUE
    assert driver.cuMemcpy(device, 0, SIZE)[0] == INVALID_VALUE


def test_what_was_refused_changes_nothing(device: int) -> None:
    neighbours = [ctypes.string_at(int(driver.cuMemAlloc(SIZE)[1]), SIZE) for _ in range(2)]
    assert driver.cuMemsetD8(device, 1, 1 << 20)[0] == INVALID_VALUE
    assert {*neighbours, ctypes.string_at(device, SIZE)} == {b"\xcb" * SIZE}


@pytest.mark.parametrize("pinned", [False, True])
def test_tensors_of_either_side_by_the_runtimes_calls(pinned: bool) -> None:
    x = torch.zeros(4, 8, device="cuda")
    y = torch.arange(32.0, pin_memory=pinned)
    assert runtime.cudaMemcpy(x[1].data_ptr(), y[8:].data_ptr(), 96, TO_DEVICE)[0] == 0
    assert x.cpu().flatten().tolist() == [0.0] * 8 + list(range(8, 32))
    assert runtime.cudaMemcpy(y.data_ptr(), x.data_ptr(), 128, TO_HOST)[0] == 0
    assert y.tolist() == x.flatten().tolist()
    assert runtime.cudaMemcpy(x[1].data_ptr(), y.data_ptr(), 128, TO_DEVICE)[0] == INVALID_VALUE
    memory = x.data_ptr()
    del x
    assert runtime.cudaMemcpy(memory, y.data_ptr(), 128, TO_DEVICE)[0] == INVALID_VALUE


def test_the_runtime_in_c_remembers_the_error(cudart: ctypes.CDLL, device: int) -> None:
    assert sized(cudart.cudaMemcpy, device, AT, SIZE, TO_DEVICE) == cudart.cudaGetLastError() == 0
    assert sized(cudart.cudaMemcpy, device, AT, SIZE + 1, TO_DEVICE) == INVALID_VALUE
    assert [cudart.cudaPeekAtLastError(), cudart.cudaGetLastError(), cudart.cudaGetLastError()] == [1, 1, 0]


@pytest.mark.parametrize("name", ["cudaMemcpyPeer", "cudaMemcpyPeerAsync"])
def test_copies_between_devices(cudart: ctypes.CDLL, device: int, name: str) -> None:
    """There is one device, number 0."""
    copy, half = getattr(cudart, name), SIZE // 2
    assert sized(cudart.cudaMemcpy, device, AT, SIZE, TO_DEVICE) == 0
    assert sized(copy, device + half, 0, device, 0, half, 0) == 0
    assert ctypes.string_at(device + half, half) == ctypes.string_at(device, half)
    assert sized(copy, device + half, 1, device, 0, half, 0) == INVALID_DEVICE
    assert sized(copy, device + half, 0, AT, 0, half, 0) == INVALID_VALUE


def test_a_function_of_the_runtime_that_is_not_emulated_names_itself(cudart: ctypes.CDLL) -> None:
    with pytest.raises(emulator.NotEmulated, match="cudaIpcGetMemHandle is not emulated"), emulator.emulate():
        assert cudart.cudaIpcGetMemHandle(None, None) != 0


@pytest.mark.parametrize("name", ["cuMemcpy2D", "cuMemcpy2DAsync", "cuMemcpy2DUnaligned"])
def test_rows_of_the_driver_between_pitches(name: str) -> None:
    library, at, pitch = ctypes.CDLL("libcuda.so.1"), ctypes.c_size_t(), ctypes.c_size_t()
    assert sized(library.cuMemAllocPitch_v2, ctypes.addressof(at), ctypes.addressof(pitch), 100, 3, 4) == 0
    assert pitch.value % 512 == 0 and pitch.value >= 100
    given, found = driver.CUDA_MEMCPY2D(), np.zeros((3, 20), np.uint8)
    given.srcMemoryType = given.dstMemoryType = driver.CUmemorytype.CU_MEMORYTYPE_HOST
    given.srcHost, given.srcPitch, given.srcXInBytes, given.srcY = AT, 16, 2, 1
    given.dstMemoryType, given.dstDevice = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE, at.value
    given.dstPitch, given.dstXInBytes, given.WidthInBytes, given.Height = pitch.value, 4, 8, 3
    stream = (0,) if "Async" in name else ()
    assert getattr(driver, name)(given, *stream)[0] == 0
    for row in range(3):
        driver.cuMemcpyDtoH(found[row].ctypes.data, at.value + row * pitch.value, 20)
    np.testing.assert_array_equal(found[:, 4:12], np.arange(18, 66).reshape(3, 16)[:, :8])
    assert (found[:, :4] == 0xCB).all() and (found[:, 12:] == 0xCB).all()


@pytest.mark.parametrize("name", ["cudaMemcpy2D", "cudaMemcpy2DAsync"])
def test_rows(cudart: ctypes.CDLL, device: int, name: str) -> None:
    rows, stream = getattr(cudart, name), torch.cuda.Stream().cuda_stream
    assert sized(rows, device, 16, AT, 9, 8, 4, TO_DEVICE, stream) == 0
    assert np.frombuffer(ctypes.string_at(device, 56), np.uint8)[[0, 16, 32, 48]].tolist() == [0, 9, 18, 27]
    assert (
        sized(rows, device + 8, 16, AT, 9, 8, 4, TO_DEVICE, stream) == 0
    )  # the bytes after its last row are not accessed
    assert sized(rows, device + 9, 16, AT, 9, 8, 4, TO_DEVICE, stream) == INVALID_VALUE
    assert sized(rows, INTO, 9, device + 9, 16, 8, 4, TO_HOST, stream) == INVALID_VALUE


def test_memory_of_the_host_that_is_registered_is_the_devices_too() -> None:
    array = pageable()
    assert driver.cuMemcpyHtoD(array.ctypes.data, AT, 8)[0] == INVALID_VALUE
    assert driver.cuMemHostRegister(array.ctypes.data, SIZE, 0)[0] == 0
    assert driver.cuMemcpyHtoD(array.ctypes.data + 8, AT, SIZE - 8)[0] == 0
    assert driver.cuMemcpyHtoD(array.ctypes.data + 8, AT, SIZE)[0] == INVALID_VALUE
    assert driver.cuMemHostUnregister(array.ctypes.data)[0] == 0
    assert driver.cuMemHostUnregister(array.ctypes.data)[0] == NOT_REGISTERED


def test_a_modules_variable_ends_where_the_module_says() -> None:
    ptx = b".version 8.7\n.target sm_100a\n.address_size 64\n.visible .global .align 4 .b32 x[4];\n"
    module = driver.cuModuleLoadData(ptx)[1]
    address, size = driver.cuModuleGetGlobal(module, b"x")[1:]
    assert driver.cuMemcpyHtoD(address, AT, size)[0] == 0
    assert driver.cuMemcpyDtoH(INTO, int(address) + 4, size - 4)[0] == 0
    assert driver.cuMemcpyHtoD(address, AT, size + 1)[0] == INVALID_VALUE
    assert driver.cuModuleUnload(module)[0] == 0
    assert driver.cuMemcpyHtoD(address, AT, size)[0] == INVALID_VALUE


def test_a_module_that_is_loaded_again_has_its_first_values() -> None:
    ptx = b".version 8.7\n.target sm_100a\n.address_size 64\n.visible .global .align 4 .u32 x = 5;\n"
    modules = [driver.cuModuleLoadData(ptx)[1]]
    first = int(driver.cuModuleGetGlobal(modules[0], b"x")[1])
    assert driver.cuMemsetD32(first, 9, 1)[0] == 0
    modules.append(driver.cuModuleLoadData(ptx)[1])
    second = int(driver.cuModuleGetGlobal(modules[1], b"x")[1])
    assert [ctypes.c_uint32.from_address(at).value for at in (first, second)] == [9, 5]


def captured(work: Callable[[int], object]) -> runtime.cudaGraphExec_t:
    stream = torch.cuda.Stream().cuda_stream
    runtime.cudaStreamBeginCapture(stream, runtime.cudaStreamCaptureMode.cudaStreamCaptureModeRelaxed)
    work(stream)
    return runtime.cudaGraphInstantiate(runtime.cudaStreamEndCapture(stream)[1], 0)[1]


def test_a_graph_is_asked_when_it_is_replayed(device: int) -> None:
    graph = captured(lambda stream: driver.cuMemsetD8Async(device, 1, SIZE, stream))
    assert runtime.cudaGraphLaunch(graph, 0)[0] == driver.cuGraphLaunch(int(graph), 0)[0] == 0
    driver.cuMemFree(device)
    assert runtime.cudaGraphLaunch(graph, 0)[0] == driver.cuGraphLaunch(int(graph), 0)[0] == INVALID_VALUE


def test_rows_are_captured(cudart: ctypes.CDLL, device: int) -> None:
    copy = cudart.cudaMemcpy2DAsync
    graph = captured(lambda stream: sized(copy, device, 16, AT, 9, 8, 4, TO_DEVICE, stream))
    assert ctypes.string_at(device, 8) == b"\xcb" * 8
    assert runtime.cudaGraphLaunch(graph, 0)[0] == 0 and ctypes.string_at(device, 8) == bytes(range(8))


def test_torchs_graph_raises(device: int) -> None:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        driver.cuMemsetD8Async(device, 1, SIZE + 1, torch.cuda.current_stream().cuda_stream)
    with pytest.raises(RuntimeError, match="CUDA error: invalid argument: 65 bytes at 0x"):
        graph.replay()
