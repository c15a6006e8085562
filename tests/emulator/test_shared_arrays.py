"""Arrays in dynamic shared memory have the names, places and layouts that a CuTeDSL kernel's source gives them."""

# mypy: ignore-errors

import io
from pathlib import Path

import cutlass
import cutlass.cute as cute
import numpy as np
import pytest
import torch
from cutlass import BFloat16, Float32, Int8, Int32, Int64
from cutlass.cute.runtime import from_dlpack
from cutlass.memory import SmemAllocator, SmemPartition

import emulator
from emulator.machine.launch.shared_names import shared_variable
from emulator.ptx.parser import parse

ROWS, COLUMNS, STAGES = 16, 64, 2
LINE = next(i for i, text in enumerate(Path(__file__).read_text().splitlines(), 1) if "places[15] =" in text)


@cute.struct
class Pair:
    left: Float32
    right: Int64


@cute.struct
class Storage:
    numbers: cute.struct.Align[cute.struct.MemRange[Float32, 5], 64]
    pair: Pair
    full: cute.struct.MemRange[Int64, 3]
    done: Int64


class Buffers:
    """Arrays that a function allocates for others."""

    def __init__(self, smem):
        def make(count):
            return smem.allocate_array(Int64, count)

        self.one = make(2)
        self.two = make(3) if cutlass.const_expr(COLUMNS > 1) else None
        self.flags, self.slot = smem.allocate_array(Int8, 5), smem.allocate_array(Int32, 1)
        self.ring = [make(1) for _ in range(2)]


@cute.kernel
def fill_kernel(places: cute.Tensor, source: cute.Tensor):
    thread = cute.arch.thread_idx()[0]
    smem = SmemAllocator()
    loose = smem.allocate(3)
    own = smem.allocate(40, 16, partition=SmemPartition.RESERVED)
    storage = smem.allocate(Storage)
    swizzled = cute.make_composed_layout(cute.make_swizzle(3, 4, 3), 0, cute.make_layout((ROWS, COLUMNS, STAGES),
                                         stride=(COLUMNS, 1, ROWS * COLUMNS)))  # fmt: skip
    sA = smem.allocate_tensor(BFloat16, swizzled.outer, 1024, swizzled.inner)
    buffers = Buffers(smem)
    found = (
        loose, own, storage.numbers.data_ptr(), storage.pair.left.ptr, storage.full.data_ptr(), storage.done.ptr,
        sA.iterator, buffers.one, buffers.two, buffers.flags, buffers.slot, buffers.ring[0], buffers.ring[1],
    )  # fmt: skip
    if thread == 0:
        for i, pointer in enumerate(found):
            places[i] = cutlass.Int32(pointer.toint())
        for i in range(3):
            cute.arch.mbarrier_init(storage.full.data_ptr() + i, 1)
        cute.arch.mbarrier_init(buffers.two + 1, 1)
    for column in cutlass.range(COLUMNS, unroll_full=True):
        sA[thread, column, 1] = source[thread, column]
    cute.arch.sync_threads()
    places[15] = Int32(sA[thread, 0, 0].to(Float32))


NAMES = (
    "loose", "own", "numbers", "pair", "full", "done", "sA", "one", "two", "flags", "slot", "ring[0]", "ring[1]",
)  # fmt: skip


@cute.jit
def fill(places: cute.Tensor, source: cute.Tensor):
    fill_kernel(places, source).launch(grid=(1, 1, 1), block=(ROWS, 1, 1))


@pytest.fixture(scope="module")
def launched(tmp_path_factory):
    """Run the kernel in the debugger; return the launch, the addresses of its arrays and the debugger's output."""
    places, source = torch.zeros(16, dtype=torch.int32), torch.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS).bfloat16()
    file = tmp_path_factory.mktemp("shared") / "a.npy"
    np.save(file, source.float().numpy())
    out = io.StringIO()
    commands = (
        "watch smem sA", "delete", f"break {LINE}", "continue", "barriers",
        f"smem sA[1] --diff {file}", "smem sA[0]", "smem sA -t u8", "smem nothing",
    )  # fmt: skip
    with emulator.emulate(diagnostics="report") as device:
        device.debug(commands, out)
        fill(from_dlpack(places), from_dlpack(source))
    return device.launches[-1], places.tolist(), out.getvalue()


def test_each_name_has_its_place(launched):
    launch, places, _ = launched
    (kernel,) = parse(launch.ptx).kernels.values()
    assert [shared_variable(kernel, at, at).name for at in places[: len(NAMES)]] == list(NAMES)
    assert max(v.offset + v.size for v in kernel.arrays) == kernel.dynamic_shared_offset + launch.dynamic_shared_bytes


def test_a_finding_names_the_array(launched):
    (finding,) = launched[0].findings
    assert "bytes of sA" in str(finding)


def test_mbarriers_have_the_names_of_their_members(launched):
    said = launched[2]
    assert "mbarrier full[2] (#2 at " in said and "mbarrier two[1] (#3 at " in said


def test_the_debugger_shows_a_stage_by_its_own_layout_and_swizzle(launched):
    said = launched[2]
    assert "sA[1] of CTA (0,0,0) from " in said and "bf16 as (16,64,2):(64,1,1024), pointer S<3,4,3>" in said
    assert said.count("equal to the reference") == 1


def test_an_unknown_name_lists_the_known_ones(launched):
    assert "'nothing' is no shared variable (own, loose, numbers, pair, full, done, sA, one, " in launched[2]
