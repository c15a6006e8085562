"""Stream capture and graphs: captured work is done at replay."""

import ctypes

import cuda.bindings.driver as driver
import cuda.bindings.runtime as runtime
import pytest
import torch

from emulator.host.session import emulated_host


@pytest.fixture(autouse=True)
def host():
    with emulated_host() as properties:
        yield properties


def test_a_captured_memset_runs_at_each_replay():
    buffer = torch.zeros(4, dtype=torch.int32, device="cuda")
    stream = torch.cuda.Stream().cuda_stream
    mode = runtime.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
    runtime.cudaStreamBeginCapture(stream, mode)
    driver.cuMemsetD32Async(buffer.data_ptr(), 7, 2, stream)
    driver.cuMemsetD32Async(buffer.data_ptr() + 12, 9, 1, 0)
    _, graph = runtime.cudaStreamEndCapture(stream)
    assert buffer.tolist() == [0, 0, 0, 9]
    assert runtime.cudaGraphGetNodes(graph)[2] == 1
    _, executable = runtime.cudaGraphInstantiate(graph, 0)
    for _ in range(2):
        buffer.zero_()
        torch.cuda.synchronize()
        runtime.cudaGraphLaunch(executable, stream)
        torch.cuda.synchronize()
        assert buffer.tolist() == [7, 7, 0, 0]


def test_torchs_graph_captures_on_its_own_stream():
    buffer = torch.zeros(2, dtype=torch.int32, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        assert torch.cuda.is_current_stream_capturing()
        driver.cuMemsetD32Async(buffer.data_ptr(), 5, 2, torch.cuda.current_stream().cuda_stream)
    assert not torch.cuda.is_current_stream_capturing()
    assert buffer.tolist() == [0, 0]
    graph.replay()
    assert buffer.tolist() == [5, 5]


@pytest.mark.parametrize(("made", "captured"), [(False, False), (False, True), (True, True)])
def test_torchs_own_work_is_done_at_each_replay(made: bool, captured: bool):
    """Tensors are made and work is captured with or without inference mode, and replayed without it."""
    with torch.inference_mode(made):
        x, y, graph = torch.zeros(4, device="cuda"), torch.ones(4, device="cuda"), torch.cuda.CUDAGraph()
    with torch.inference_mode(captured), torch.cuda.graph(graph):
        x.add_(1)
        fresh = torch.full((4,), 3.0, device="cuda") + x
        y[1:3] = 7
        row = fresh.view(2, 2)[0]
        y.record_stream(torch.cuda.current_stream())
    assert x.tolist() == [0] * 4 and y.tolist() == [1] * 4
    for times in (1, 2):
        graph.replay()
        assert x.tolist() == [times] * 4 and fresh.tolist() == [3 + times] * 4 and row.tolist() == [3 + times] * 2
        assert y.tolist() == [1, 7, 7, 1]


def test_a_stream_that_waits_for_a_capture_takes_part_in_it():
    x, side, graph = torch.zeros(4, device="cuda"), torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.add_(1)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            assert torch.cuda.is_current_stream_capturing()
            x.mul_(3)
        torch.cuda.current_stream().wait_stream(side)
        x.sub_(1)
    assert x.tolist() == [0] * 4
    with torch.cuda.stream(side):
        assert not torch.cuda.is_current_stream_capturing()
    graph.replay()
    assert x.tolist() == [2] * 4


def test_the_runtimes_events_fork_a_capture():
    buffer = torch.zeros(2, dtype=torch.int32, device="cuda")
    first, second = (torch.cuda.Stream().cuda_stream for _ in range(2))
    mode = runtime.cudaStreamCaptureMode.cudaStreamCaptureModeRelaxed
    _, event = runtime.cudaEventCreate()
    runtime.cudaEventRecord(event, first)
    runtime.cudaStreamWaitEvent(second, event, 0)
    torch.cuda.synchronize()
    runtime.cudaStreamBeginCapture(first, mode)
    driver.cuMemsetD32Async(buffer.data_ptr(), 1, 1, second)
    driver.cuStreamSynchronize(second)
    assert buffer.tolist() == [1, 0]
    runtime.cudaEventRecord(event, first)
    runtime.cudaStreamWaitEvent(second, event, 0)
    driver.cuMemsetD32Async(buffer.data_ptr(), 7, 2, second)
    assert driver.cuStreamGetCaptureInfo(second)[1].value == 1
    runtime.cudaEventRecord(event, second)
    runtime.cudaStreamWaitEvent(first, event, 0)
    _, graph = runtime.cudaStreamEndCapture(first)
    assert buffer.tolist() == [1, 0] and driver.cuStreamGetCaptureInfo(second)[1].value == 0
    runtime.cudaGraphLaunch(runtime.cudaGraphInstantiate(graph, 0)[1], first)
    torch.cuda.synchronize()
    assert buffer.tolist() == [7, 7]


def test_ending_what_was_not_begun():
    error, graph = runtime.cudaStreamEndCapture(5)
    assert (error, graph) == (runtime.cudaError_t.cudaErrorStreamCaptureInvalidated, None)


def begun() -> int:
    """Return a capturing stream."""
    stream = torch.cuda.Stream().cuda_stream
    runtime.cudaStreamBeginCapture(stream, runtime.cudaStreamCaptureMode.cudaStreamCaptureModeRelaxed)
    return stream


def follow(stream: int, other: int, event: int | None = None) -> int:
    """Make a stream wait for another by an event, and return the event."""
    event = event or int(runtime.cudaEventCreate()[1])
    assert runtime.cudaEventRecord(event, other)[0] == 0
    assert runtime.cudaStreamWaitEvent(stream, event, 0)[0] == 0
    return event


NOT_READY = 600
UNSUPPORTED, INVALIDATED, MERGE, UNMATCHED, UNJOINED, CAPTURED_EVENT = 900, 901, 902, 903, 904, 907
QUESTIONS = {
    "cudaStreamSynchronize": lambda stream: runtime.cudaStreamSynchronize(stream),
    "cudaStreamQuery": lambda stream: runtime.cudaStreamQuery(stream),
    "cudaDeviceSynchronize": lambda stream: runtime.cudaDeviceSynchronize(),
    "cuStreamSynchronize": lambda stream: driver.cuStreamSynchronize(stream),
    "cuStreamQuery": lambda stream: driver.cuStreamQuery(stream),
    "cuCtxSynchronize": lambda stream: driver.cuCtxSynchronize(),
    "in C": lambda stream: [ctypes.CDLL("libcudart.so.13").cudaStreamSynchronize(ctypes.c_size_t(stream))],
    "device in C": lambda stream: [ctypes.CDLL("libcudart.so.13").cudaDeviceSynchronize()],
}


@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS)
def test_a_stream_that_captures_is_waited_for_by_nobody(ask):
    stream, other = begun(), torch.cuda.Stream().cuda_stream
    buffer = torch.zeros(1, dtype=torch.int32, device="cuda")
    assert runtime.cudaStreamSynchronize(other)[0] == 0
    assert [runtime.cudaStreamQuery(0)[0] for _ in range(2)] == [NOT_READY, 0]
    assert driver.cuStreamIsCapturing(stream)[1].value == 1
    assert ask(stream)[0] == UNSUPPORTED
    assert driver.cuGetErrorName(driver.CUresult(UNSUPPORTED))[1] == b"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"
    assert driver.cuStreamIsCapturing(stream)[1].value == 2
    assert driver.cuMemsetD32Async(buffer.data_ptr(), 7, 1, stream)[0] == INVALIDATED
    assert runtime.cudaStreamEndCapture(stream) == (INVALIDATED, None)
    assert ask(stream)[0] == 0 and buffer.tolist() == [0]


def test_an_event_of_a_capture_is_waited_for_by_nobody():
    stream, other = begun(), torch.cuda.Stream().cuda_stream
    event, free = follow(other, stream), int(runtime.cudaEventCreate()[1])
    runtime.cudaEventRecord(free, 0)
    assert runtime.cudaEventQuery(free)[0] == driver.cuEventSynchronize(free)[0] == 0
    assert runtime.cudaEventQuery(event)[0] == driver.cuEventSynchronize(event)[0] == CAPTURED_EVENT
    assert runtime.cudaStreamEndCapture(stream) == (INVALIDATED, None)
    for answer in (runtime.cudaEventQuery(event), runtime.cudaStreamWaitEvent(other, event, 0)):
        assert answer[0] == runtime.cudaError_t.cudaErrorInvalidValue
    runtime.cudaEventRecord(event, 0)
    assert runtime.cudaEventQuery(event)[0] == 0


def test_what_was_forked_is_joined():
    buffer, other = torch.zeros(2, dtype=torch.int32, device="cuda"), torch.cuda.Stream().cuda_stream
    for joined in ("at the end", "before its last work", "never"):
        stream = begun()
        event = follow(other, stream)
        driver.cuMemsetD32Async(buffer.data_ptr(), 7, 2, other)
        if joined != "never":
            follow(stream, other, event)
        if joined == "before its last work":
            driver.cuMemsetD32Async(buffer.data_ptr(), 8, 2, other)
        error, graph = runtime.cudaStreamEndCapture(stream)
        assert error == (0 if joined == "at the end" else UNJOINED) and (graph is None) == (joined != "at the end")
        assert driver.cuStreamIsCapturing(other)[1].value == 0


def test_a_stream_is_joined_by_way_of_another():
    first, second, third = begun(), torch.cuda.Stream().cuda_stream, torch.cuda.Stream().cuda_stream
    buffer = torch.zeros(1, dtype=torch.int32, device="cuda")
    follow(second, first)
    follow(third, second)
    for stream in (third, second):
        driver.cuMemsetD32Async(buffer.data_ptr(), 7, 1, stream)
    follow(second, third)
    follow(first, second)
    assert runtime.cudaStreamEndCapture(first)[0] == 0


def test_a_capture_ends_where_it_began_and_stays_apart():
    first, second, other = begun(), begun(), torch.cuda.Stream().cuda_stream
    follow(other, first)
    assert runtime.cudaStreamEndCapture(other) == (UNMATCHED, None)
    event = int(runtime.cudaEventCreate()[1])
    runtime.cudaEventRecord(event, other)
    assert runtime.cudaStreamWaitEvent(first, event, 0)[0] == INVALIDATED
    assert runtime.cudaStreamEndCapture(first) == (INVALIDATED, None)
    third = begun()
    runtime.cudaEventRecord(event, third)
    assert runtime.cudaStreamWaitEvent(second, event, 0)[0] == MERGE
    assert runtime.cudaStreamEndCapture(second)[0] == runtime.cudaStreamEndCapture(third)[0] == INVALIDATED


WAITS = {
    "item": lambda x: x[0].item(),
    "a branch": lambda x: bool(x[0] > 0),
    "tolist": lambda x: x.tolist(),
    "cpu": lambda x: x.cpu(),
    "to": lambda x: x.to("cpu"),
    "copy_": lambda x: torch.zeros(4).copy_(x),
    "nonzero": lambda x: x.nonzero(),
    "print": lambda x: str(x),
    "synchronize": lambda x: torch.cuda.synchronize(),
    "of the stream": lambda x: torch.cuda.current_stream().synchronize(),
}
IS_FINE = {
    "dtype": lambda x: x.to(torch.float64),
    "copy_": lambda x: x.copy_(x + 1),
    "pinned": lambda x: torch.zeros(4, pin_memory=True).copy_(x, non_blocking=True),
    "to": lambda x: x.to("cpu", non_blocking=True),
    "another stream": lambda x: torch.cuda.default_stream().synchronize(),
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_what_waits_for_the_device_ends_torchs_capture(wait):
    x, graph = torch.ones(4, device="cuda"), torch.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="due to a previous error during capture") as raised, torch.cuda.graph(graph):
        x.mul_(2)
        wait(x)
    assert "operation not permitted when stream is capturing" in str(raised.value.__context__)
    assert torch.cuda.current_stream() == torch.cuda.default_stream() and x.tolist() == [1] * 4
    wait(x)


@pytest.mark.parametrize("work", IS_FINE.values(), ids=IS_FINE)
def test_what_does_not_wait_is_captured(work):
    x, graph = torch.ones(4, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work(x.mul_(2))
    graph.replay()
    assert x[0].item() >= 2


def test_torch_says_what_was_not_joined():
    x, side, graph = torch.zeros(4, device="cuda"), torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="unjoined work"), torch.cuda.graph(graph):
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            driver.cuMemsetD32Async(x.data_ptr(), 7, 2, side.cuda_stream)
