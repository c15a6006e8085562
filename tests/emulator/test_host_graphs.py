"""Stream capture and graphs: captured work waits for the replay."""

import cuda.bindings.driver as driver
import cuda.bindings.runtime as runtime
import pytest
import torch

from emulator import NotEmulated
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


def test_torchs_own_work_in_a_capture_is_refused():
    tensor = torch.ones(2, device="cuda")
    with pytest.raises(NotEmulated, match="add inside a graph capture"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        tensor.view(2, 1)
        torch.empty(2, device="cuda")
        torch.add(tensor, 1)


def test_ending_what_was_not_begun():
    error, graph = runtime.cudaStreamEndCapture(5)
    assert (error, graph) == (runtime.cudaError_t.cudaErrorStreamCaptureInvalidated, None)
