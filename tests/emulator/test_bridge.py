"""CuTeDSL's compiled host code: launches, arguments, errors that pass through it, entering and leaving a device."""

from __future__ import annotations

import ctypes
import inspect
import os
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from cuda.bindings.driver import CUstream

import emulator  # before CuTeDSL, so that PTX is kept
from emulator.bridge import driver
from emulator.bridge.allocations import allocations, argument_memory
from emulator.bridge.driver import define_entry_points
from emulator.bridge.elf import undefined_symbols
from emulator.bridge.launchconfig import LaunchConfig
from emulator.bridge.tensormap import encode_tiled
from emulator.errors import BudgetExceeded, EmulatorError, LaunchError, OutOfBounds
from emulator.machine.execution.blas import _openblas, one_thread

pytest.importorskip("cutlass")
import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import from_dlpack

ROOT = Path(__file__).parents[2]
STREAM = CUstream(0)


@cute.kernel
def add_kernel(x: cute.Tensor, y: cute.Tensor, amount: cutlass.Float32):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    i = block * 32 + thread
    if i < cute.size(x):
        y[i] = x[i] + amount


@cute.jit
def add(x: cute.Tensor, y: cute.Tensor, amount: cutlass.Float32, stream: CUstream):
    blocks = cute.ceil_div(cute.size(x), 32)
    add_kernel(x, y, amount).launch(grid=(blocks, 1, 1), block=(32, 1, 1), stream=stream)


@cute.jit
def add_twice(x: cute.Tensor, y: cute.Tensor, amount: cutlass.Float32, stream: CUstream):
    blocks = cute.ceil_div(cute.size(x), 32)
    add_kernel(x, y, amount).launch(grid=(blocks, 1, 1), block=(32, 1, 1), stream=stream)
    add_kernel(y, y, amount).launch(grid=(blocks, 1, 1), block=(32, 1, 1), stream=stream)


@cute.kernel
def stray_kernel(y: cute.Tensor):
    y[cute.size(y) + cute.arch.thread_idx()[0]] = cutlass.Float32(1.0)


@cute.jit
def stray(y: cute.Tensor):
    stray_kernel(y).launch(grid=(1, 1, 1), block=(32, 1, 1))


@cute.jit
def too_large(y: cute.Tensor):
    stray_kernel(y).launch(grid=(1, 1, 1), block=(2048, 1, 1))


def dynamic(t: torch.Tensor) -> Any:
    return from_dlpack(t).mark_layout_dynamic()


def tensors(n: int = 100) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(n, dtype=torch.float32), torch.full((n,), float("nan"))


@pytest.fixture(scope="module")
def compiled() -> Any:
    x, y = tensors()
    return cute.compile(add, dynamic(x), dynamic(y), 1.0, STREAM)


def test_a_compiled_function_runs_often_and_with_other_sizes(compiled: Any) -> None:
    with emulator.emulate() as device:
        for n, amount in ((100, 2.0), (7, -1.0), (64, 0.5)):
            x, y = tensors(n)
            compiled(dynamic(x), dynamic(y), amount, STREAM)
            torch.testing.assert_close(y, x + amount)
    assert [launch.grid for launch in device.launches] == [(4, 1, 1), (1, 1, 1), (2, 1, 1)]
    assert all(launch.block == (32, 1, 1) and launch.instructions > 0 for launch in device.launches)


def test_a_function_that_launches_twice() -> None:
    x, y = tensors()
    function = cute.compile(add_twice, dynamic(x), dynamic(y), 1.0, STREAM)
    with emulator.emulate("random", seed=3) as device:
        function(dynamic(x), dynamic(y), 1.5, STREAM)
    torch.testing.assert_close(y, x + 3)
    assert len(device.launches) == 2


def test_a_call_without_compiling_first() -> None:
    x, y = tensors()
    with emulator.emulate():
        add(dynamic(x), dynamic(y), cutlass.Float32(4.0), STREAM)
    torch.testing.assert_close(y, x + 4)


def test_a_call_without_compiling_first_knows_its_tensors() -> None:
    with (
        emulator.emulate(),
        pytest.raises(OutOfBounds, match=r"near +argument 0: 0x\w+ to 0x\w+ \(0 bytes past its end\)"),
    ):
        stray(dynamic(torch.zeros(64)))


def test_executors_made_by_to(compiled: Any) -> None:
    x, y = tensors()
    with emulator.emulate():
        compiled.to(0)(dynamic(x), dynamic(y), 1.0, STREAM)
    torch.testing.assert_close(y, x + 1)


def test_what_goes_wrong_in_a_kernel_reaches_the_caller() -> None:
    y = torch.zeros(64)
    function = cute.compile(stray, dynamic(y))
    with emulator.emulate() as device:
        for _ in range(2):
            with pytest.raises(OutOfBounds, match="PTX line"):
                function(dynamic(y))
        assert device.launches == []
        x, y = tensors()
        add(dynamic(x), dynamic(y), cutlass.Float32(4.0), STREAM)
    torch.testing.assert_close(y, x + 4)


def test_a_launch_that_the_device_would_refuse() -> None:
    y = torch.zeros(64)
    function = cute.compile(too_large, dynamic(y))
    with emulator.emulate(), pytest.raises(LaunchError, match="2048 threads"):
        function(dynamic(y))


@cute.jit
def together(x: cute.Tensor, y: cute.Tensor, amount: cutlass.Float32, blocks: cutlass.Int32):
    add_kernel(x, y, amount).launch(grid=(blocks, 1, 1), block=(32, 1, 1), cooperative=True)


def test_a_cooperative_launch_that_is_too_large_is_an_error_of_cuda() -> None:
    from cutlass.cutlass_dsl import DSLCudaRuntimeError

    x, y = tensors(64)
    function = cute.compile(together, dynamic(x), dynamic(y), 1.0, 2)
    with emulator.emulate() as device:
        with pytest.raises(DSLCudaRuntimeError) as refused:
            function(dynamic(x), dynamic(y), 1.0, 32 * 148 + 1)
        assert refused.value.error_code == 720 and y.isnan().all() and device.launches == []
        function(dynamic(x), dynamic(y), 1.0, 2)
    torch.testing.assert_close(y, x + 1)


def test_the_budget_reaches_the_caller(compiled: Any) -> None:
    x, y = tensors()
    with emulator.emulate(budget=5), pytest.raises(BudgetExceeded):
        compiled(dynamic(x), dynamic(y), 1.0, STREAM)


def test_an_interrupt_passes_through_compiled_code(compiled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    x, y = tensors()
    with emulator.emulate() as device:
        monkeypatch.setattr(type(device), "launch", interrupted)
        with pytest.raises(KeyboardInterrupt):
            compiled(dynamic(x), dynamic(y), 1.0, STREAM)


def test_devices_nest_and_are_left(compiled: Any) -> None:
    x, y = tensors()
    with emulator.emulate("eager") as outer:
        with emulator.emulate("lazy") as inner:
            compiled(dynamic(x), dynamic(y), 1.0, STREAM)
            assert driver.current() is inner
        compiled(dynamic(x), dynamic(y), 1.0, STREAM)
        assert driver.current() is outer
        executor = compiled.to(0)
    assert (len(outer.launches), len(inner.launches)) == (1, 1)
    assert driver.current() is None
    with pytest.raises(RuntimeError, match="no longer current"):
        executor(dynamic(x), dynamic(y), 1.0, STREAM)


def test_arguments_of_emulate() -> None:
    with pytest.raises(ValueError, match="completion is 'late'; allowed"), emulator.emulate("late"):  # type: ignore[arg-type]
        pass


@pytest.mark.long
def test_ptx_that_was_not_kept_is_asked_for() -> None:
    """In a separate process, in which CuTeDSL keeps no PTX."""
    script = """
import os
os.environ["CUTE_DSL_KEEP"] = ""
import emulator, torch, pytest
from tests.emulator.test_bridge import add, dynamic, tensors, STREAM
import cutlass.cute as cute
x, y = tensors()
function = cute.compile(add, dynamic(x), dynamic(y), 1.0, STREAM)
with emulator.emulate(), pytest.raises(emulator.NotEmulated, match="without keeping its PTX"):
    function(dynamic(x), dynamic(y), 1.0, STREAM)
print("asked")
"""
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, timeout=600)
    assert done.stdout.endswith("asked\n"), done.stderr


@dataclass(frozen=True)
class Operands:
    """Arguments by name, as CuTeDSL takes them."""

    v: object
    scale: object


def test_the_memory_of_arguments_is_known_by_name() -> None:
    base = torch.zeros(10, 20)
    part = base[2:4, ::2]
    found = list(allocations([base, {"k": from_dlpack(part)}, 3, torch.zeros(0), Operands(base, cutlass.Float32(1))]))
    assert found[0] == (base.data_ptr(), 800, "argument 0")
    assert found[1] == (part.data_ptr(), 4 * (20 + 18 + 1), "k")
    assert len(found) == 4 and found[2][1] == 0
    assert found[3] == (base.data_ptr(), 800, "v")


@pytest.mark.parametrize(
    ("argument", "closed"),
    [
        (torch.zeros(3), True),
        ({"k": [from_dlpack(torch.zeros(3, dtype=torch.int32)), None, 7, 1.5, STREAM, cutlass.Float32(2.0)]}, True),
        (torch.zeros(3, dtype=torch.float64), True),
        (torch.zeros(3, dtype=torch.int64), False),
        (from_dlpack(torch.zeros(3, dtype=torch.int64)), False),
        (torch.zeros(3, dtype=torch.uint8), False),
        (1 << 40, False),
        (cutlass.Int64(1 << 40), False),
        (object(), False),
        ([torch.zeros(3), object()], False),
        (Operands(torch.zeros(3), cutlass.Float32(2.0)), True),
        (Operands(torch.zeros(3), object()), False),
    ],
)
def test_memory_is_closed_when_no_argument_can_hold_another_address(argument: object, closed: bool) -> None:
    assert argument_memory([torch.zeros(2)], argument).closed is closed


@cute.kernel
def shifted_kernel(y: cute.Tensor, by: cutlass.Int32):
    cute.make_tensor(y.iterator + by, cute.make_layout(32))[cute.arch.thread_idx()[0]] = cutlass.Float32(1.0)


@cute.jit
def shifted(y: cute.Tensor, other: cute.Tensor | None, by: cutlass.Int32):
    shifted_kernel(y, by).launch(grid=(1, 1, 1), block=(32, 1, 1))


def test_a_store_far_from_the_tensors_passed_is_found_unless_another_may_be_meant() -> None:
    memory = torch.zeros(1 << 20)
    near, far = from_dlpack(memory[:64]), memory[1 << 19 :]
    by = 1 << 19
    with emulator.emulate():
        for function in (cute.compile(shifted, near, None, by), shifted):
            with pytest.raises(OutOfBounds, match=f"{4 * (by - 64)} bytes past its end"):
                function(near, None, cutlass.Int32(by))
        addresses = from_dlpack(torch.tensor([far.data_ptr()]))
        cute.compile(shifted, near, addresses, by)(near, addresses, by)
    assert far[:32].sum() == 32


def test_entry_points_that_nobody_defines_are_refused() -> None:
    define_entry_points(["_cudaGetDevice", "malloc"])
    with pytest.raises(emulator.NotEmulated, match="_cudaGraphicsSomething"):
        define_entry_points(["_cudaGraphicsSomething"])


def test_undefined_symbols_are_those_that_the_linker_misses(compiled: Any, tmp_path: Path) -> None:
    path = tmp_path / "host.o"
    compiled.engine.dump_to_object_file(str(path))
    names = undefined_symbols(path.read_bytes())
    assert "_cudaLaunchKernelEx" in names
    assert not any(name.startswith("_mlir_ciface") for name in names)
    with pytest.raises(ValueError, match="not a 64-bit little-endian ELF"):
        undefined_symbols(b"MZ\x90\x00 no elf file")


def config_bytes(grid: tuple[int, int, int], *attributes: tuple[int, bytes]) -> ctypes.Array:
    table = ctypes.create_string_buffer(b"".join(struct.pack("<i4x", i) + v.ljust(64, b"\0") for i, v in attributes))
    raw = struct.pack("<6IQQQI", *grid, 128, 2, 1, 4096, 0, ctypes.addressof(table), len(attributes))
    buffer = ctypes.create_string_buffer(raw)
    buffer.table = table  # type: ignore[attr-defined]
    return buffer


def cluster(*sizes: int) -> bytes:
    return struct.pack("<3I", *sizes)


@pytest.mark.parametrize(
    ("attributes", "wanted"),
    [
        ((), None),
        (((6, b"\1"), (4, cluster(2, 1, 1))), (2, 1, 1)),
        (((4, cluster(2, 1, 1)), (11, cluster(2, 4, 1))), (2, 4, 1)),
        (((4, cluster(2, 1, 1)), (11, cluster(2, 3, 1))), (2, 1, 1)),
    ],
)
def test_launch_configurations(attributes: tuple, wanted: object) -> None:
    raw = config_bytes((8, 4, 1), *attributes)
    found = LaunchConfig.read(ctypes.addressof(raw))
    assert (found.grid, found.block, found.dynamic_shared_bytes) == ((8, 4, 1), (128, 2, 1), 4096)
    assert found.cluster == wanted
    assert found.attributes == tuple(i for i, _ in attributes)


def test_attributes_that_are_not_known_are_refused(compiled: Any) -> None:
    x, y = tensors()
    with emulator.emulate() as device:
        compiled(dynamic(x), dynamic(y), 1.0, STREAM)
        raw = config_bytes((1, 1, 1), (13, b""))
        with pytest.raises(emulator.NotEmulated, match="launch attribute 13"):
            device.launch(1, LaunchConfig.read(ctypes.addressof(raw)), 0)
    assert issubclass(emulator.NotEmulated, EmulatorError)


TMA_TYPES = {torch.float16: 6, torch.float32: 7, torch.bfloat16: 9, torch.uint8: 0}


@cute.kernel
def tma_kernel(atom: cute.CopyAtom, tensor: cute.Tensor):
    pass


@cute.jit
def tma(x: cute.Tensor, swizzle: cutlass.Constexpr, rows: cutlass.Constexpr, columns: cutlass.Constexpr):
    """Pass a tensor map by value, as CuTeDSL's host code encodes it."""
    inner = cute.make_layout((rows, columns), stride=(columns, 1))
    layout = cute.make_composed_layout(cute.make_swizzle(swizzle, 4, 3), 0, inner) if swizzle else inner
    op = cute.nvgpu.cpasync.CopyBulkTensorTileG2SOp()
    atom, view = cute.nvgpu.cpasync.make_tiled_tma_atom(op, x, layout, (rows, columns))
    tma_kernel(atom, view).launch(grid=(1, 1, 1), block=(32, 1, 1))


@pytest.mark.parametrize("dtype", TMA_TYPES)
@pytest.mark.parametrize(("swizzle", "code"), [(0, 0), (1, 1), (2, 2), (3, 3)])
def test_tensor_maps_are_encoded_as_cutedsl_does_it(
    dtype: torch.dtype, swizzle: int, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = torch.empty((), dtype=dtype).element_size()
    rows, columns = 8, (128 if swizzle == 0 else 16 << swizzle) // size
    x = torch.zeros(72, 512, dtype=dtype)
    seen: list[bytes] = []

    def launch(device: object, kernel: int, config: object, arguments: int) -> None:
        pointer = ctypes.c_uint64.from_address(arguments).value
        seen.append(ctypes.string_at(pointer, 64))

    with emulator.emulate() as device:
        monkeypatch.setattr(type(device), "launch", launch)
        tma(from_dlpack(x, assumed_align=16), swizzle, rows, columns)
    arrays: list[ctypes.Array[Any]] = [
        (ctypes.c_uint64 * 2)(512, 72),
        (ctypes.c_uint64 * 1)(512 * size),
        (ctypes.c_uint32 * 2)(columns, rows),
        (ctypes.c_uint32 * 2)(1, 1),
    ]
    a, b, c, d = map(ctypes.addressof, arrays)
    ours = encode_tiled(TMA_TYPES[dtype], 2, x.data_ptr(), a, b, c, d, 0, code, 0, 0)
    assert ours[:64].hex(" ", 8) == seen[0].hex(" ", 8)
    assert len(ours) == 128


def test_tensor_maps_that_no_hardware_holds() -> None:
    ok: list[ctypes.Array[Any]] = [
        (ctypes.c_uint64 * 2)(64, 64),
        (ctypes.c_uint64 * 1)(100),
        (ctypes.c_uint32 * 2)(8, 8),
        (ctypes.c_uint32 * 2)(1, 1),
    ]
    a, b, c, d = map(ctypes.addressof, ok)
    with pytest.raises(ValueError, match="strides \\[100\\]"):
        encode_tiled(6, 2, 0, a, b, c, d, 0, 0, 0, 0)
    with pytest.raises(ValueError, match="rank 6"):
        encode_tiled(6, 6, 0, a, b, c, d, 0, 0, 0, 0)


def test_blas_has_one_thread_inside_and_its_own_number_again_outside() -> None:
    known = _openblas()
    if known is None:
        pytest.skip("numpy came with another BLAS")
    threads, _ = known
    before = threads()
    with one_thread():
        assert threads() == 1
    assert threads() == before


def test_a_child_process_keeps_its_ptx_in_a_folder_of_its_own() -> None:
    """CuTeDSL names the files after kernels, so processes that share a folder read each other's."""
    code = "import os, emulator; print(os.environ['CUTE_DSL_DUMP_DIR'], os.environ['CUTE_DSL_KEEP'])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    folder, kept = done.stdout.split()
    assert kept == "ptx" and folder != os.environ["CUTE_DSL_DUMP_DIR"]


def test_cutedsl_remembers_positions_as_python_has_them() -> None:
    from cutlass._mlir_helpers import op

    def both(frame: FrameType) -> tuple[inspect.Traceback, inspect.Traceback]:
        assert not op._is_framework_stack_frame(frame)
        return op._fast_frameinfo(frame), inspect.getframeinfo(frame)

    places = []
    for _ in range(2):
        places.append(both(sys._getframe()))
        places.append(both(sys._getframe()))
    assert len({found.positions for found, _ in places}) == 2
    assert all(found == right and found.positions == right.positions for found, right in places)


def test_a_location_is_made_once_in_each_context_of_mlir() -> None:
    from cutlass._mlir.ir import Context  # type: ignore[attr-defined]
    from cutlass._mlir_helpers import op

    here = op._fast_frameinfo(sys._getframe())
    there = op._fast_frameinfo(sys._getframe())
    with Context() as first:
        made = [op._get_location_from_frame_info(each) for each in (here, there, here)]
    with Context() as second:
        other = op._get_location_from_frame_info(here)
    assert made[0] is made[2] and made[0] is not made[1]
    assert made[0].context is first and other.context is second and str(other) == str(made[0])
