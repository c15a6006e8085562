"""Stream capture and graphs: captured work waits for the replay."""

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
        runtime.cudaGraphLaunch(executable, stream)
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
    """With tensors made, and work captured, in inference mode or not; replayed outside of it."""
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
    runtime.cudaStreamBeginCapture(first, mode)
    driver.cuMemsetD32Async(buffer.data_ptr(), 1, 1, second)
    assert buffer.tolist() == [1, 0]
    runtime.cudaEventRecord(event, first)
    runtime.cudaStreamWaitEvent(second, event, 0)
    driver.cuMemsetD32Async(buffer.data_ptr(), 7, 2, second)
    assert driver.cuStreamGetCaptureInfo(second)[1].value == 1
    _, graph = runtime.cudaStreamEndCapture(first)
    assert buffer.tolist() == [1, 0] and driver.cuStreamGetCaptureInfo(second)[1].value == 0
    runtime.cudaGraphLaunch(runtime.cudaGraphInstantiate(graph, 0)[1], first)
    assert buffer.tolist() == [7, 7]


def test_ending_what_was_not_begun():
    error, graph = runtime.cudaStreamEndCapture(5)
    assert (error, graph) == (runtime.cudaError_t.cudaErrorStreamCaptureInvalidated, None)
