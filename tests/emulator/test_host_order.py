"""Order between streams and the host: its code accesses memory that a stream uses, or a stream calls its functions."""

from __future__ import annotations

import ctypes
from functools import partial
from mmap import PAGESIZE, mmap

import cuda.bindings.runtime as runtime
import pytest

import emulator
from emulator.errors import StreamRace
from tests.emulator.test_stream_order import LONG, STORE, Gpu, N, device, found, gpu

__all__ = ["device", "gpu"]


def written_by(copied: bool, gpu: Gpu, host: int, stream: int) -> None:
    """Let a copy, or a kernel, write pinned memory."""
    if copied:
        gpu.call("cuMemcpyDtoHAsync_v2", host, gpu.x, 4 * N, stream)
    else:
        gpu.run(STORE, stream, host)


def by_the_host(device: emulator.EmulatedDevice) -> list[str]:
    return [str(error).partition(" memory")[0].removeprefix("an access on the host ") for error in found(device)]


@pytest.mark.parametrize("allocate", ["cuMemHostAlloc", "cuMemAllocManaged", "cuMemAllocHost_v2"])
@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("copied", [False, True])
def test_the_hosts_own_code_reads_pinned_memory(
    allocate: str, waits: bool, copied: bool, gpu: Gpu, device: emulator.EmulatedDevice
) -> None:
    host, stream = gpu.new(allocate, 4 * N, 1), gpu.stream()
    written_by(copied, gpu, host, stream)
    if waits:
        gpu.call("cuStreamSynchronize", stream)
    ctypes.string_at(host + 8, 4)
    assert by_the_host(device) == ["reads"] * (not waits)


@pytest.mark.parametrize("waits", [False, True])
def test_the_hosts_own_code_writes_pinned_memory(waits: bool, gpu: Gpu, device: emulator.EmulatedDevice) -> None:
    host, stream = gpu.new("cuMemHostAlloc", 4 * N, 0), gpu.stream()
    gpu.call("cuMemcpyHtoDAsync_v2", gpu.x, host, 4 * N, stream)
    ctypes.string_at(host, 4)  # two reads
    if waits:
        gpu.call("cuStreamSynchronize", stream)
    ctypes.memset(host, 0, 4)
    assert by_the_host(device) == ["writes"] * (not waits)


CALLED, CALLED_BACK = ctypes.CFUNCTYPE(None, LONG), ctypes.CFUNCTYPE(None, LONG, ctypes.c_int, LONG)
ACCESSES = {"reads": lambda data: ctypes.string_at(data, 4), "writes": lambda data: ctypes.memset(data, 0, 4)}


@pytest.mark.parametrize("waits", [False, True])
def test_the_host_writes_pinned_memory_of_cuda_bindings(waits: bool, gpu: Gpu, device: emulator.EmulatedDevice) -> None:
    (_, host), (_, stream) = runtime.cudaMallocHost(4 * N), runtime.cudaStreamCreateWithFlags(1)
    runtime.cudaMemcpyAsync(gpu.x, host, 4 * N, runtime.cudaMemcpyKind.cudaMemcpyHostToDevice, stream)
    if waits:
        runtime.cudaStreamSynchronize(stream)
    ctypes.memset(int(host), 0, 4)
    assert by_the_host(device) == ["writes"] * (not waits)


def test_an_error_of_a_kernel_stays_for_cuda_bindings(gpu: Gpu, device: emulator.EmulatedDevice) -> None:
    assert runtime.cudaMemset(1, 0, 4)[0] == 1
    assert [int(runtime.cudaGetLastError()[0]) for _ in range(2)] == [1, 0]
    gpu.run("add.u64 %x, %x, 1048576; st.global.u32 [%x], %v;", 0)
    assert len(found(device)) == 1
    answers = runtime.cudaGetLastError(), runtime.cudaMalloc(4), runtime.cudaStreamSynchronize(0)
    assert [int(answer[0]) for answer in answers] == [700] * 3


@pytest.mark.parametrize("wrote", [False, True])
@pytest.mark.parametrize("does", ACCESSES)
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("old", [False, True])
def test_functions_that_a_stream_calls(
    old: bool, ordered: bool, does: str, wrote: bool, gpu: Gpu, device: emulator.EmulatedDevice
) -> None:
    host, one, two = gpu.new("cuMemHostAlloc", 4 * N, 0), gpu.stream(), gpu.stream()
    run = CALLED_BACK(lambda stream, error, data: ACCESSES[does](data)) if old else CALLED(ACCESSES[does])
    call = partial(gpu.call, "cuStreamAddCallback" if old else "cuLaunchHostFunc")
    copy = partial(
        gpu.call, *(("cuMemcpyDtoHAsync_v2", host, gpu.x) if wrote else ("cuMemcpyHtoDAsync_v2", gpu.x, host))
    )
    copy(4 * N, one)
    gpu.order(one, two, ordered)
    call(two, run, host, 0)
    assert bool(found(device)) == (not ordered and (wrote or does == "writes"))
    gpu.call("cuCtxSynchronize")
    device.failures.clear()
    call(two, run, host, 0)
    gpu.order(two, one, ordered)
    copy(4 * N, one)
    assert bool(found(device)) == (not ordered and (wrote or does == "writes"))


@pytest.mark.parametrize("ordered", [False, True])
def test_the_host_reads_what_a_function_wrote(ordered: bool, gpu: Gpu, device: emulator.EmulatedDevice) -> None:
    host, stream = gpu.new("cuMemHostAlloc", 4 * N, 0), gpu.stream()
    run = CALLED(ACCESSES["writes"])
    gpu.call("cuLaunchHostFunc", stream, run, host)
    if ordered:
        gpu.call("cuStreamSynchronize", stream)
    ctypes.string_at(host, 4)
    assert by_the_host(device) == ["reads"] * (not ordered)


@pytest.mark.parametrize("ordered", [False, True])
def test_registered_memory(ordered: bool, gpu: Gpu, device: emulator.EmulatedDevice) -> None:
    pages, stream = mmap(-1, 3 * PAGESIZE), gpu.stream()
    host = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    gpu.call("cuMemHostRegister_v2", host + 64, 2 * PAGESIZE, 0)
    gpu.call("cuMemcpyDtoHAsync_v2", host + PAGESIZE, gpu.x, 4 * N, stream)
    ctypes.memset(host, 0, 4)  # on a page that is not registered as a whole
    if ordered:
        gpu.call("cuStreamSynchronize", stream)
    ctypes.memset(host + PAGESIZE, 0, 4)
    assert by_the_host(device) == ["writes"] * (not ordered)
    gpu.call("cuMemHostUnregister", host + 64)


@pytest.mark.parametrize("streams", [1, 2])
@pytest.mark.parametrize(("store", "races"), [("volatile", False), ("release.sys", False), ("relaxed.gpu", True)])
def test_the_host_polls_a_flag(
    store: str, races: bool, streams: int, gpu: Gpu, device: emulator.EmulatedDevice
) -> None:
    data, flag = (gpu.new("cuMemHostAlloc", 4 * N, 2) for _ in range(2))
    ctypes.memset(flag, 0, 4)
    to = f"add.u64 %x, %start, {flag - data}; setp.ne.u32 %p, %i, 0; @%p ret;"
    gpu.run(
        f"{STORE} fence.acq_rel.sys; bar.sync 0; {to} st.{store}.global.u32 [%x], %v;", gpu.stream(2 - streams), data
    )
    assert ctypes.c_uint32.from_address(flag).value == 7 == ctypes.c_uint32.from_address(data).value
    assert bool(found(device)) == races


@pytest.mark.parametrize("wait", [True, False])
def test_managed_memory_that_is_filled(wait: bool, gpu: Gpu, device: emulator.EmulatedDevice) -> None:
    memory, stream = gpu.new("cuMemAllocManaged", 4 * N, 1), gpu.stream()
    gpu.call("cuMemsetD32Async", memory, 3, N, stream)
    if wait:
        gpu.call("cuStreamSynchronize", stream)
    assert ctypes.c_uint32.from_address(memory).value == 3
    gpu.call("cuCtxSynchronize")
    assert isinstance(device.error, StreamRace) != wait
