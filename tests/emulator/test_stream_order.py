"""Order between launches, copies and frees of several streams, by programs with and without what orders them."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from ptx_launch import kernel

import emulator
from emulator import NotEmulated
from emulator.errors import DataRace, EmulatorError, StreamRace, UseAfterFree
from emulator.host.session import emulated_host

N = 64
LONG = ctypes.c_uint64
TRIGGER, WAIT = "griddepcontrol.launch_dependents;", "griddepcontrol.wait;"
USE = "setp.eq.u32 %p, %v, 99; @%p ret;"
LOAD, STORE = f"ld.global.u32 %v, [%x]; {USE}", "st.global.u32 [%x], %v;"
LOAD_FLAG, STORE_FLAG = f"ld.relaxed.gpu.global.u32 %v, [%x]; {USE}", "st.relaxed.gpu.global.u32 [%x], %v;"


def ptx(body: str) -> bytes:
    """Return a module with the kernel `k`: each of its 64 threads runs `body`, with %x the address of its word of x."""
    one = "setp.ne.u32 %p, %i, 0; @%p ret;" if "mbarrier" in body else ""
    return kernel(
        "k",
        ".param .u64 x",
        f"""
.reg .b64 %x, %at, %start; .reg .b32 %i, %v, %w; .reg .pred %p;
ld.param.u64 %start, [x]; mov.u32 %i, %tid.x; mul.wide.u32 %at, %i, 4; add.u64 %x, %start, %at;
mov.u32 %v, 7; {one} {body} ret;
""",
    ).encode()


class Gpu:
    """The driver's functions, and memory `x` of 64 words."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        self.x = self.allocate()

    def call(self, name: str, *arguments: object) -> None:
        getattr(self.library, name)(*(LONG(a) if isinstance(a, int) else a for a in arguments))

    def new(self, name: str, *arguments: object) -> int:
        """Call a function that writes a handle to its first parameter."""
        made = LONG()
        self.call(name, ctypes.byref(made), *arguments)
        return made.value

    def kernel(self, body: str) -> int:
        return self.new("cuModuleGetFunction", self.new("cuModuleLoadData", ptx(body)), b"k")

    def allocate(self) -> int:
        return self.new("cuMemAlloc_v2", 4 * N)

    def stream(self, flags: int = 1) -> int:
        return self.new("cuStreamCreate", flags)

    def run(
        self,
        body: str,
        stream: int,
        x: int | None = None,
        after: bool = False,
        event: int = 0,
        at_start: bool = False,
        ctas: int = 1,
    ) -> None:
        """Launch 64 threads. after: as a programmatic dependent of the launch before. event: of their trigger."""
        value = struct.pack("<I4xQ4xI", 7, event, at_start) if event else struct.pack("<I4xI", 6, after)
        attribute = ctypes.create_string_buffer(value, 72)
        given = (ctypes.POINTER(LONG) * 1)(ctypes.pointer(LONG(self.x if x is None else x)))
        function = self.kernel(body)
        config = struct.pack("<7I4xQQI4x", ctas, 1, 1, N, 1, 1, 0, stream, ctypes.addressof(attribute), 1)
        self.call("cuLaunchKernelEx", config, function, given, None)

    def fill(self, stream: int) -> None:
        self.call("cuMemsetD32Async", self.x, 0, N, stream)

    def order(self, first: int, second: int, waits: bool = True) -> None:
        """Let a stream wait for what another one has been given so far."""
        event = self.new("cuEventCreate", 0)
        self.call("cuEventRecord", event, first)
        if waits:
            self.call("cuStreamWaitEvent", second, event, 0)

    def graph(self, stream: int, work: Callable[[], None]) -> int:
        self.call("cuStreamBeginCapture_v2", stream, 0)
        work()
        return self.new("cuGraphInstantiateWithFlags", self.ended(stream), 0)

    def ended(self, stream: int) -> int:
        graph = LONG()
        self.call("cuStreamEndCapture", stream, ctypes.byref(graph))
        return graph.value


@pytest.fixture
def device() -> Iterator[emulator.EmulatedDevice]:
    with emulated_host(), emulator.emulate() as device:
        yield device
        device.error = None


@pytest.fixture
def gpu(device: emulator.EmulatedDevice) -> Gpu:
    return Gpu()


def found(device: emulator.EmulatedDevice) -> list[EmulatorError]:
    return [failure.error for failure in device.failures]


def two_streams(gpu: Gpu, between: Callable[[Gpu, int, int], None], first: int = 1, second: int = 1) -> None:
    """Write on one stream, read on another. first, second: their flags; 1 does not wait for the default stream."""
    one, two = gpu.stream(first), gpu.stream(second)
    gpu.run(STORE, one)
    between(gpu, one, two)
    gpu.run(LOAD, two)


def recorded_early(gpu: Gpu) -> None:
    one, two = gpu.stream(), gpu.stream()
    gpu.order(one, two)
    gpu.run(STORE, one)
    gpu.run(LOAD, two)


def overwritten(gpu: Gpu, ordered: bool) -> None:
    one, two = gpu.stream(), gpu.stream()
    gpu.run(LOAD, one)
    gpu.order(one, two, ordered)
    gpu.fill(two)


def default_and(gpu: Gpu, flags: int) -> None:
    gpu.stream()
    other = gpu.stream(flags)
    gpu.run(STORE, 0)
    gpu.run(LOAD, other)
    gpu.run(STORE, 0)


def freed(gpu: Gpu, by_stream: bool) -> None:
    one, two = gpu.stream(), gpu.stream()
    gpu.run(LOAD, one)
    gpu.call("cuMemFreeAsync", gpu.x, two) if by_stream else gpu.call("cuMemFree_v2", gpu.x)


def branches(gpu: Gpu, joined_between: bool) -> None:
    """Replay a graph of two branches that both write."""
    one, two = gpu.stream(), gpu.stream()

    def capture() -> None:
        gpu.order(one, two)
        gpu.fill(one)
        gpu.order(one, two, joined_between)
        gpu.run(STORE, two)
        gpu.order(two, one)

    graph = gpu.graph(one, capture)
    gpu.call("cuGraphLaunch", graph, one)
    gpu.call("cuGraphLaunch", graph, one)


def graph_beside(gpu: Gpu, ordered: bool) -> None:
    one, two = gpu.stream(), gpu.stream()
    graph = gpu.graph(one, lambda: gpu.fill(one))
    gpu.call("cuGraphLaunch", graph, one)
    gpu.order(one, two, ordered)
    gpu.run(LOAD, two)


def parts(gpu: Gpu, distance: int) -> None:
    """Two streams write 16 words each, this many words apart."""
    few = "setp.ge.u32 %p, %i, 16; @%p ret; mov.u32 %v, %i;"
    for i in range(2):
        gpu.run(few + STORE, gpu.stream(), gpu.x + 4 * distance * i)


def wait_by_queries(gpu: Gpu, stream: int) -> None:
    """Ask a stream whether it has done its work, until it says so."""
    answers = [gpu.library.cuStreamQuery(LONG(stream)) for _ in range(3)]
    assert answers == [600, 0, 0]


SYNCHRONISED: dict[str, Callable[[Gpu, int, int], None]] = {
    "event": lambda gpu, one, two: gpu.order(one, two),
    "stream": lambda gpu, one, two: gpu.call("cuStreamSynchronize", one),
    "query": lambda gpu, one, two: wait_by_queries(gpu, one),
    "device": lambda gpu, one, two: gpu.call("cuCtxSynchronize"),
    "free": lambda gpu, one, two: gpu.call("cuMemFree_v2", gpu.allocate()),
}
FIRST = "setp.ne.u32 %p, %i, 0; @%p ret;"
SPIN = "W: ld.{}.global.u32 %w, [%x]; setp.ne.u32 %p, %w, 7; @%p bra W;"


def flag(gpu: Gpu, release: str, acquire: str, third: bool = False) -> None:
    """Let a kernel write data and a flag, and one of another stream read the flag and the data.

    third: a kernel of a third stream, which comes before, writes the data.
    """
    one, two = gpu.stream(), gpu.stream()
    gpu.call("cuMemsetD32Async", gpu.x, 0, N, one)
    gpu.order(one, two)
    data = "st.global.u32 [%x+4], %v;"
    if third:
        other = gpu.stream()
        gpu.order(one, other)
        gpu.run(FIRST + data, other)
        gpu.order(other, one)
    gpu.run(f"{FIRST} {'' if third else data} st.{release}.gpu.global.u32 [%x], %v;", one)
    gpu.run(f"{FIRST} {SPIN.format(f'{acquire}.gpu')} ld.global.u32 %v, [%x+4]; {USE}", two)


def word(
    gpu: Gpu, writes: Callable[[Gpu, int, int], None], waits: bool = True, polls: bool = False, size: int = 32
) -> None:
    """Let a stream write data, and then 7 to a word that another stream or, if it polls, its kernel waits for."""
    one, two, at = gpu.stream(), gpu.stream(), gpu.allocate()
    gpu.run(STORE, one)
    writes(gpu, one, at)
    if waits and not polls:
        gpu.call(f"cuStreamWaitValue{size}_v2", two, at, 7, 1)
    gpu.run(
        (f"sub.u64 %x, %x, %at; add.u64 %x, %x, {at - gpu.x};" + SPIN.format("acquire.sys") if polls else "")
        + f"add.u64 %x, %start, %at; {LOAD}",
        two,
    )


def written_word(gpu: Gpu, stream: int, at: int, flags: int = 0, size: int = 32) -> None:
    gpu.call(f"cuStreamWriteValue{size}_v2", stream, at, 7, flags)


def written_words(gpu: Gpu, stream: int, at: int) -> None:
    """Write two words by one call, the second for others to wait for."""
    given = b"".join(struct.pack("<I4xQQI20x", 2, to, 7, 0) for to in (at + 4, at))
    gpu.call("cuStreamBatchMemOp_v2", stream, 2, given, 0)


NO_FENCE = partial(written_word, flags=1)


def word_of_a_kernel(gpu: Gpu, stream: int, at: int, store: str = "volatile") -> None:
    gpu.run(f"{FIRST} fence.acq_rel.sys; st.{store}.global.u32 [%x], %v;", stream, at)


IN_ORDER: dict[str, Callable[[Gpu], None]] = {
    **{name: partial(two_streams, between=between) for name, between in SYNCHRONISED.items()},
    "overwritten": lambda gpu: overwritten(gpu, True),
    "the default stream": lambda gpu: default_and(gpu, 0),
    "freed": lambda gpu: freed(gpu, False),
    "branches": lambda gpu: branches(gpu, True),
    "graph": lambda gpu: graph_beside(gpu, True),
    "parts": lambda gpu: parts(gpu, 16),
    "flag": lambda gpu: flag(gpu, "release", "acquire"),
    "flag after a third kernel": lambda gpu: flag(gpu, "release", "acquire", third=True),
    "word": lambda gpu: word(gpu, written_word),
    "long word": lambda gpu: word(gpu, partial(written_word, size=64), size=64),
    "words": lambda gpu: word(gpu, written_words),
    "polled word": lambda gpu: word(gpu, written_word, polls=True),
    "word of a kernel": lambda gpu: word(gpu, word_of_a_kernel),
    "word of a fill": lambda gpu: word(gpu, lambda gpu, stream, at: gpu.call("cuMemsetD32Async", at, 7, 1, stream)),
    "through the default stream": lambda gpu: two_streams(gpu, lambda *_: gpu.fill(0), 0, 0),
}
NOT_IN_ORDER: dict[str, tuple[Callable[[Gpu], None], type[EmulatorError], str]] = {
    "no event": (lambda gpu: two_streams(gpu, lambda *_: None), DataRace, "kernel k on stream"),
    "one query": (
        lambda gpu: two_streams(gpu, lambda gpu, one, _: gpu.call("cuStreamQuery", one)),
        DataRace,
        "kernel k on stream",
    ),
    "blocking": (lambda gpu: two_streams(gpu, lambda *_: None, 0, 0), DataRace, "kernel k on stream"),
    "wrong way": (lambda gpu: two_streams(gpu, lambda _, a, b: gpu.order(b, a)), DataRace, "cudaStreamWaitEvent"),
    "recorded early": (recorded_early, DataRace, "an event of stream"),
    "overwritten": (lambda gpu: overwritten(gpu, False), StreamRace, "which reads it"),
    "the default stream": (lambda gpu: default_and(gpu, 1), DataRace, "kernel k on the default stream"),
    "freed": (lambda gpu: freed(gpu, True), StreamRace, "cudaFreeAsync on stream"),
    "branches": (lambda gpu: branches(gpu, False), DataRace, "cudaMemsetAsync"),
    "graph": (lambda gpu: graph_beside(gpu, False), DataRace, "cudaMemsetAsync"),
    "parts": (lambda gpu: parts(gpu, 15), DataRace, "which wrote it"),
    "flag": (lambda gpu: flag(gpu, "relaxed", "acquire"), DataRace, "which wrote it"),
    "no wait for a word": (lambda gpu: word(gpu, written_word, waits=False), DataRace, "st.global of kernel k"),
    "word without a fence": (lambda gpu: word(gpu, NO_FENCE), DataRace, "st.global of kernel k"),
    "polled word, no fence": (lambda gpu: word(gpu, NO_FENCE, polls=True), DataRace, "st.global of kernel k"),
}


@pytest.mark.parametrize("name", IN_ORDER)
def test_operations_in_order(name: str, gpu: Gpu, device: emulator.EmulatedDevice) -> None:
    IN_ORDER[name](gpu)
    assert found(device) == []


@pytest.mark.parametrize("name", NOT_IN_ORDER)
def test_operations_without_order(name: str, gpu: Gpu, device: emulator.EmulatedDevice) -> None:
    program, kind, said = NOT_IN_ORDER[name]
    program(gpu)
    (error,) = found(device)
    assert type(error) is kind and said in str(error), error


def test_a_word_that_a_kernel_writes_for_its_device_alone(gpu: Gpu, device: emulator.EmulatedDevice) -> None:
    word(gpu, partial(word_of_a_kernel, store="relaxed.gpu"))
    assert [type(error) for error in found(device)] == [StreamRace, DataRace]


def test_a_word_that_is_written_later(gpu: Gpu, device: emulator.EmulatedDevice) -> None:
    gpu.call("cuStreamWaitValue32_v2", gpu.stream(), gpu.x, 7, 1)
    (error,) = found(device)
    assert type(error) is NotEmulated and "cuStreamWaitValue32 for a value that is written later" in str(error)


WAITS_FOR_WORDS = {
    "a cyclic >=": (0, [(7, 7), (8, 7), (1, 2**32 - 1)], (2**31 + 7, 7)),
    "==": (1, [(7, 7)], (8, 7)),
    "a common bit": (2, [(6, 12)], (3, 12)),
    "a bit that both lack": (3, [(5, 2**32 - 3)], (2, 2**32 - 3)),
}


@pytest.mark.parametrize("name", WAITS_FOR_WORDS)
def test_the_condition_of_a_wait_for_a_word(name: str, gpu: Gpu, device: emulator.EmulatedDevice) -> None:
    flag, hold, fails = WAITS_FOR_WORDS[name]
    for there, wanted in (*hold, fails):
        assert not found(device)
        gpu.call("cuStreamWriteValue32_v2", 0, gpu.x, there, 0)
        gpu.call("cuStreamWaitValue32_v2", 0, gpu.x, wanted, flag)
    assert len(found(device)) == 1


@pytest.mark.parametrize("ordered", [False, True])
def test_memory_exists_in_the_order_of_its_stream(ordered: bool, gpu: Gpu, device: emulator.EmulatedDevice) -> None:
    one, two = gpu.stream(), gpu.stream()
    x = gpu.new("cuMemAllocAsync", 4 * N, one)
    gpu.order(one, two, ordered)
    gpu.run(STORE, two, x)
    assert [str(error).count("after cudaMallocAsync on stream") for error in found(device)] == [1] * (not ordered)


@pytest.mark.parametrize("freed_early", [False, True])
def test_memory_of_a_graph(freed_early: bool, gpu: Gpu, device: emulator.EmulatedDevice) -> None:
    stream = gpu.stream()

    def capture() -> None:
        x = gpu.new("cuMemAllocAsync", 4 * N, stream)
        gpu.run(STORE, stream, x)
        last = [lambda: gpu.run(LOAD, stream, x), lambda: gpu.call("cuMemFreeAsync", x, stream)]
        for step in reversed(last) if freed_early else last:
            step()

    graph = gpu.graph(stream, capture)
    for _ in range(2):
        gpu.call("cuGraphLaunch", graph, stream)
    assert all("was freed" in str(error) for error in found(device)) and bool(found(device)) == freed_early


@pytest.mark.parametrize("freed", [False, True])
def test_memory_that_a_graph_leaves(freed: bool, gpu: Gpu, device: emulator.EmulatedDevice) -> None:
    stream, made = gpu.stream(), list[int]()
    graph = gpu.graph(stream, lambda: made.append(gpu.new("cuMemAllocAsync", 4 * N, stream)))
    for _ in range(2):
        gpu.call("cuGraphLaunch", graph, stream)
        gpu.run(STORE, stream, made[0])
        gpu.call("cuMemFreeAsync", *made, stream)
    assert found(device) == []
    if freed:
        gpu.run(LOAD, stream, made[0])
    assert bool(found(device)) == freed


FREED: dict[str, Callable[[Gpu, int], None]] = {
    "copied": lambda gpu, x: gpu.call("cuMemcpyDtoDAsync_v2", gpu.x, x, 4 * N, 0),
    "filled": lambda gpu, x: gpu.call("cuMemsetD8_v2", x, 0, 4 * N),
    "freed again": lambda gpu, x: gpu.call("cuMemFree_v2", x),
}


@pytest.mark.parametrize("how", FREED)
def test_freed_memory(how: str, gpu: Gpu, device: emulator.EmulatedDevice) -> None:
    x = gpu.allocate()
    gpu.call("cuMemFree_v2", x)
    FREED[how](gpu, x)
    assert isinstance(device.error, UseAfterFree) and "freed by cudaFree at" in str(device.error)


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("space", ["global", "const"])
def test_a_copy_to_a_variable(space: str, ordered: bool, gpu: Gpu, device: emulator.EmulatedDevice) -> None:
    text = ptx(f"ld.{space}.u32 %v, [table]; st.global.u32 [%x], %v;").replace(
        b".visible .entry", b".visible .%s .align 4 .b32 table[4];\n.visible .entry" % space.encode()
    )
    module, one, two = gpu.new("cuModuleLoadData", text), gpu.stream(), gpu.stream()
    table, size, given = LONG(), LONG(), (ctypes.POINTER(LONG) * 1)(ctypes.pointer(LONG(gpu.x)))
    gpu.call("cuModuleGetGlobal_v2", ctypes.byref(table), ctypes.byref(size), module, b"table")
    gpu.call("cuMemcpyHtoDAsync_v2", table.value, gpu.new("cuMemHostAlloc", 16, 0), 16, one)
    gpu.order(one, two, ordered)
    gpu.call("cuLaunchKernel", gpu.new("cuModuleGetFunction", module, b"k"), 1, 1, 1, N, 1, 1, 0, two, given, None)
    assert [str(error).count("of table") for error in found(device)] == [1] * (not ordered)


@pytest.mark.parametrize("ordered", [False, True])
def test_a_fill_of_rows(ordered: bool, gpu: Gpu, device: emulator.EmulatedDevice) -> None:
    one, two = gpu.stream(), gpu.stream()
    gpu.call("cuMemsetD2D32Async", gpu.x, 64, 99, 4, 4, one)  # the first 16 bytes of each 64
    gpu.call("cuMemsetD2D32Async", gpu.x + 16, 64, 98, 12, 4, two)
    assert not found(device)
    gpu.order(one, two, ordered)
    gpu.call("cuMemsetD2D8Async", gpu.x + 63, 64, 0, 2, 3, two)  # the first byte of each row but one
    assert bool(found(device)) != ordered


PER_THREAD: dict[str, Callable[[Gpu], object]] = {
    "the per-thread default stream, which wrote it": lambda gpu: gpu.run(STORE, 2),
    "cudaMemsetAsync on the per-thread default stream": lambda gpu: ctypes.CDLL("libcudart.so.13").cudaMemsetAsync_ptsz(
        LONG(gpu.x), 0, LONG(4 * N), None
    ),
}


@pytest.mark.parametrize("said", PER_THREAD)
def test_the_default_stream_of_a_thread(said: str, gpu: Gpu, device: emulator.EmulatedDevice) -> None:
    """It waits for the legacy stream, and not for other blocking streams."""
    PER_THREAD[said](gpu)
    gpu.run(LOAD, 0)
    PER_THREAD[said](gpu)
    assert not found(device)
    gpu.run(LOAD, gpu.stream(0))
    assert said in str(found(device)[0])


def test_a_copy_from_pinned_memory_that_was_freed(gpu: Gpu, device: emulator.EmulatedDevice) -> None:
    memory = gpu.new("cuMemAllocHost_v2", 4 * N)
    gpu.call("cuMemFreeHost", memory)
    gpu.call("cuMemcpyHtoDAsync_v2", gpu.x, memory, 4 * N, 0)
    assert isinstance(device.error, UseAfterFree)


LOAD_BOX = """
.shared .align 128 .b8 box[1024]; .shared .b64 full; mov.u32 %v, 0;
mbarrier.init.shared.b64 [full], 1; mbarrier.arrive.expect_tx.shared.b64 _, [full], 1024;
cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [box], [%start, {%v, %v}], [full];
W: mbarrier.try_wait.parity.shared.b64 %p, [full], 0; @!%p bra W;
"""


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("first", ["load", "copy"])
def test_a_tensor_map_that_another_stream_changes(
    first: str, ordered: bool, gpu: Gpu, device: emulator.EmulatedDevice
) -> None:
    values = gpu.new("cuMemAlloc_v2", 4096)
    raw = tensor_map(gpu, values)
    at, streams = gpu.new("cuMemAlloc_v2", 128), [gpu.stream() for _ in range(2)]
    gpu.call("cuMemcpyHtoD_v2", at, raw, 128)
    gpu.call("cuCtxSynchronize")
    work = [
        lambda: gpu.run(LOAD_BOX, streams[0], at),
        lambda: gpu.call("cuMemcpyHtoDAsync_v2", at, raw, 128, streams[1]),
    ]
    second = 1 if first == "load" else 0
    work[1 - second]()
    gpu.order(streams[1 - second], streams[second], ordered)
    work[second]()
    assert [type(error) for error in found(device)] == ([] if ordered else [StreamRace if second else DataRace])


def tensor_map(gpu: Gpu, values: int) -> ctypes.Array[ctypes.c_char]:
    """Return the map of float[16, 64] with boxes of 8 rows of 32."""
    raw, sizes = ctypes.create_string_buffer(128), (LONG * 2)(64, 16)
    box, steps = (ctypes.c_uint * 2)(32, 8), (ctypes.c_uint * 2)(1, 1)
    gpu.call("cuTensorMapEncodeTiled", raw, 7, 2, values, sizes, (LONG * 1)(256), box, steps, 0, 0, 0, 0)
    return raw
