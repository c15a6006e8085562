"""torch's cuda device on the emulated host: devices of tensors, device queries, unsupported calls."""

import ctypes
from typing import Any

import numpy as np
import pytest
import torch
from torch._subclasses.fake_impls import fast_detach
from torch._subclasses.fake_tensor import FakeTensorMode

from emulator import NotEmulated
from emulator.host.memory import ALIGNMENT
from emulator.host.session import emulated_host


@pytest.fixture(autouse=True)
def host():
    with emulated_host() as properties:
        yield properties


MAKERS = {
    "factory": lambda: torch.ones(3, device="cuda"),
    "factory, torch.device": lambda: torch.ones(3, device=torch.device("cuda", 0)),
    "factory, ordinal": lambda: torch.ones(3, device=0),
    "cuda()": lambda: torch.ones(3).cuda(),
    "to(str)": lambda: torch.ones(3).to("cuda:0"),
    "to(device=)": lambda: torch.ones(3).to(device="cuda"),
    "to(tensor)": lambda: torch.ones(3).to(torch.zeros(1, device="cuda")),
    "like": lambda: torch.ones_like(torch.zeros(3, device="cuda")),
    "like, device=": lambda: torch.ones_like(torch.zeros(3), device="cuda"),
    "new_": lambda: torch.zeros(1, device="cuda").new_ones(3),
    "result": lambda: torch.zeros(3, device="cuda") + 1,
    "view": lambda: torch.ones(1, 3, device="cuda")[0],
    "in a list": lambda: torch.cat([torch.ones(1, device="cuda"), torch.ones(2, device="cuda")]),
    "of several": lambda: torch.ones(6, device="cuda").split(3)[1],
    "dtype and device": lambda: torch.ones(3, dtype=torch.int8).to("cuda", torch.float32),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_a_tensor_of_the_device_says_so_and_computes(make):
    tensor = make()
    assert tensor.is_cuda
    assert (tensor.device, tensor.get_device()) == (torch.device("cuda", 0), 0)
    assert (tensor.sum().item(), tensor.dtype) == (3.0, torch.float32)


@pytest.mark.parametrize("device", [None, "cpu"])
def test_other_tensors_stay_on_the_cpu(device):
    tensor = torch.ones(3, device=device)
    assert not tensor.is_cuda
    assert tensor.device.type == "cpu"
    assert (tensor + tensor).device.type == "cpu"


def test_copies_between_the_devices_are_copies():
    there = torch.zeros(4, device="cuda")
    here, again = there.cpu(), there.to("cpu")
    there += 1
    assert here.tolist() == again.tolist() == [0] * 4
    assert here.device.type == "cpu"
    source = torch.zeros(4)
    moved, given = source.cuda(), torch.as_tensor(np.zeros(4, np.float32), device="cuda")
    source += 1
    assert moved.tolist() == given.tolist() == [0] * 4


def test_moving_to_where_it_is_gives_the_same_tensor():
    there, here = torch.zeros(4, device="cuda"), torch.zeros(4)
    assert there.to("cuda") is there
    assert there.cuda() is there
    assert here.cpu() is here


def test_in_place_and_out_keep_the_side_of_the_target():
    here, there = torch.zeros(2), torch.ones(2, device="cuda")
    assert here.copy_(there).device.type == "cpu"
    assert torch.add(torch.ones(2), 1, out=here).device.type == "cpu"
    assert there.copy_(here).is_cuda


@pytest.mark.parametrize("shape", [(1,), (3, 5), (7, 1, 2)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.uint8])
def test_addresses_are_aligned_as_cudas_allocator_does(shape, dtype):
    for tensor in (torch.zeros(shape, dtype=dtype, device="cuda"), torch.zeros(shape).to(dtype).cuda()):
        assert tensor.data_ptr() % ALIGNMENT == 0
        assert tensor.shape == shape


EMPTY = {
    "empty": lambda: torch.empty(2, 3, device="cuda"),
    "empty_like": lambda: torch.empty_like(torch.zeros(2, 3, device="cuda")),
    "empty_like of the CPU's": lambda: torch.empty_like(torch.zeros(2, 3), device="cuda"),
    "empty_strided": lambda: torch.empty_strided((2, 3), (1, 2), device="cuda"),
    "new_empty": lambda: torch.zeros(1, device="cuda").new_empty(2, 3),
    "new_empty_strided": lambda: torch.zeros(1, device="cuda").new_empty_strided((2, 3), (3, 1)),
    "integers": lambda: torch.empty(2, 3, device="cuda", dtype=torch.int32),
}


@pytest.mark.parametrize("make", EMPTY.values(), ids=EMPTY)
def test_what_nothing_wrote_is_poison(make):
    tensor = make()
    assert ctypes.string_at(tensor.data_ptr(), 24) == b"\xcb" * 24


def test_a_graph_leaves_what_nothing_writes_as_it_is():
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x = torch.empty(4, device="cuda")
        x[:2] = 1
    graph.replay()
    assert x[:2].tolist() == [1, 1] and (x[2:].view(torch.uint8) == 0xCB).all()


def test_torchs_own_filling_is_kept():
    torch.use_deterministic_algorithms(True)
    try:
        assert torch.empty(4, device="cuda").isnan().all()
    finally:
        torch.use_deterministic_algorithms(False)


def test_alignment_keeps_values_strides_and_gradients():
    parameter = torch.nn.Parameter(torch.arange(6.0).reshape(2, 3)).cuda()
    transposed = torch.arange(6.0).reshape(2, 3).t().cuda()
    assert transposed.stride() == (1, 3)
    assert transposed.tolist() == [[0, 3], [1, 4], [2, 5]]
    (parameter * 2).sum().backward()


def test_tensors_without_memory_know_their_device():
    real = torch.ones(2, 3, device="cuda")
    with FakeTensorMode() as mode:
        fake, made = mode.from_tensor(real), torch.empty(3, 2, device="cuda")
        assert [t.device for t in (fake, made, fake @ made, fake.cpu())] == [real.device] * 3 + [torch.device("cpu")]
        assert fast_detach(mode, fake).device == real.device


def test_a_module_moves():
    module = torch.nn.Linear(3, 2).cuda()
    assert module.weight.device.type == "cuda"
    assert module(torch.ones(1, 3, device="cuda")).is_cuda


def test_default_device_and_device_context():
    torch.set_default_device("cuda")
    try:
        assert torch.zeros(1).is_cuda
        assert torch.get_default_device().type == "cuda"
    finally:
        torch.set_default_device(None)
    assert not torch.zeros(1).is_cuda
    with torch.device("cuda"):
        assert torch.zeros(1).is_cuda


def test_comparison_minds_the_device():
    there = torch.ones(2, device="cuda")
    torch.testing.assert_close(there, torch.ones(2, device="cuda"))
    with pytest.raises(AssertionError, match="device"):
        torch.testing.assert_close(there, torch.ones(2))


def test_numpy_needs_cpu_first():
    with pytest.raises(TypeError, match=r"cpu\(\)"):
        torch.ones(2, device="cuda").numpy()
    assert torch.ones(2, device="cuda").cpu().numpy().tolist() == [1, 1]


def test_dlpack_names_the_device_and_shares_the_memory():
    tensor = torch.zeros(4, device="cuda")
    assert tensor.__dlpack_device__() == (2, 0)
    assert tensor.__cuda_array_interface__["data"][0] == tensor.data_ptr()


def test_properties(host):
    assert torch.cuda.is_available()
    assert torch.cuda.device_count() == 1
    assert torch.cuda.get_device_capability() == (10, 0)
    properties: Any = torch.cuda.get_device_properties("cuda")
    assert (properties.multi_processor_count, properties.shared_memory_per_block_optin) == (148, 227 * 1024)
    assert torch.cuda.get_device_name(0) == host.name


def test_streams_and_events():
    stream = torch.cuda.Stream()
    assert torch.cuda.current_stream().cuda_stream == 0
    with torch.cuda.stream(stream):
        assert torch.cuda.current_stream() == stream
        start = stream.record_event(torch.cuda.Event(enable_timing=True))
    end = torch.cuda.Event(enable_timing=True)
    with pytest.raises(RuntimeError, match="recorded"):
        start.elapsed_time(end)
    end.record()
    end.synchronize()
    assert start.elapsed_time(end) > 0
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    torch.cuda.synchronize()


@pytest.mark.parametrize("call", [lambda: torch.zeros(1, device="cuda:1"), lambda: torch.cuda.set_device(3)])
def test_a_second_device_is_refused(call):
    with pytest.raises(NotEmulated, match=r"cuda:\d.*one emulated device"):
        call()


def test_what_needs_a_driver_is_refused_by_name():
    with pytest.raises(NotEmulated, match="make_graphed_callables"):
        torch.cuda.make_graphed_callables(None, ())  # type: ignore[call-overload]


def test_what_torch_computes_on_cuda_alone_is_refused_by_name():
    tensor = torch.zeros(16, dtype=torch.uint8, device="cuda").view(torch.float4_e2m1fn_x2)
    with pytest.raises(NotEmulated, match="torch's to on the device is not emulated"):
        tensor.to(torch.float32)


def test_leaving_puts_torch_back():
    available = torch.cuda.is_available
    with emulated_host():
        assert torch.cuda.is_available is not available
    assert torch.cuda.is_available is available


def test_the_profiler_records_on_the_cpu():
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as recorded:
        torch.zeros(3, device="cuda") + 1
    assert "aten::add" in recorded.key_averages().table(sort_by="cuda_time_total")


def test_an_extension_of_torch_in_cuda_is_refused():
    from torch.utils.cpp_extension import CUDAExtension

    with pytest.raises(NotEmulated, match=r"tvm_ffi\.cpp\.load_inline for the same kernels"):
        CUDAExtension("of_a_user", ["kernels.cu"])
