"""`emulator.launch`: kernels as PTX text, run over arrays and tensors."""

import ctypes

import numpy as np
import pytest
import torch
from ptx_launch import kernel

import emulator
from emulator.errors import LaunchError, OutOfBounds

PARAMS = ".param .u64 x, .param .u64 y, .param .f32 a, .param .u32 n"
AXPY = kernel(
    "axpy",
    PARAMS,
    """
.reg .b64 %x, %y, %at; .reg .f32 %a, %u, %v; .reg .b32 %i, %c, %d, %n; .reg .pred %p;
ld.param.u64 %x, [x]; ld.param.u64 %y, [y]; ld.param.f32 %a, [a]; ld.param.u32 %n, [n];
mov.u32 %c, %ctaid.x; mov.u32 %d, %ntid.x; mov.u32 %i, %tid.x; mad.lo.u32 %i, %c, %d, %i;
setp.ge.u32 %p, %i, %n; @%p ret;
mul.wide.u32 %at, %i, 4; add.u64 %x, %x, %at; add.u64 %y, %y, %at;
ld.global.f32 %u, [%x]; ld.global.f32 %v, [%y]; fma.rn.f32 %v, %a, %u, %v; st.global.f32 [%y], %v; ret;
""",
)


@pytest.mark.parametrize("scale", [0.5, np.float32(0.5), ctypes.c_float(0.5), 0x3F000000, b"\0\0\0?"], ids=type)
def test_arrays_and_numbers(scale) -> None:
    x, y = np.arange(100, dtype=np.float32), np.ones(100, np.float32)
    launched = emulator.launch(AXPY, "axpy", [x, y, scale, 100], grid=4, block=(32, 1))
    assert (y == 1 + x / 2).all()
    assert (launched.kernel, launched.grid, launched.block) == ("axpy", (4, 1, 1), (32, 1, 1))


def test_tensors_and_their_views() -> None:
    x, y = torch.arange(100.0), torch.ones(200)
    emulator.launch(AXPY, args=[x, y[100:], 2.0, 100], grid=4)
    assert y.tolist() == [1.0] * 100 + (1 + 2 * x).tolist()


def test_the_device_that_was_entered() -> None:
    x, y = torch.arange(32.0), torch.ones(32)
    with emulator.emulate("random", 3, budget=5) as device, pytest.raises(emulator.EmulatorError, match="budget"):
        emulator.launch(AXPY, args=[x, y, 2.0, 32])
    with emulator.emulate() as device:
        assert emulator.launch(AXPY, args=[x, y, 2.0, 32]) is device.launches[-1]


def test_there_is_no_other_memory() -> None:
    x, y = np.ones(32, np.float32), np.ones(31, np.float32)
    with pytest.raises(OutOfBounds, match="y"):
        emulator.launch(AXPY, args=[x, y, 2.0, 32])


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ([1, 2, 3], "3 arguments for axpy; it has 4 parameters"),
        ([0, 0, "0.5", 1], "a is '0.5'; allowed: an array, a number or bytes that 4 bytes hold"),
        ([0, 0, 0.5, 1 << 32], "n is 4294967296; allowed"),
        ([0, 0, np.float64(0.5), 1], "of 8 bytes; the parameter has 4"),
        ([0, 0, 0.5, 32.0], r"n is 32\.0; the parameter is \.u32: pass an integer"),
        ([0, 0, 0.5, np.float32(32)], r"n is .*; the parameter is \.u32: pass an integer"),
    ],
)
def test_what_is_no_argument(args, said) -> None:
    with pytest.raises(LaunchError, match=said):
        emulator.launch(AXPY, args=args)


def test_an_unknown_kernel_names_those_that_there_are() -> None:
    with pytest.raises(LaunchError, match=r"kernel is 'axpq'; the module has axpy$"):
        emulator.launch(AXPY, "axpq", [])
    both = AXPY + AXPY[AXPY.index(".visible") :].replace("axpy", "axpz")
    with pytest.raises(LaunchError, match="no kernel is named; the module has axpy, axpz"):
        emulator.launch(both, args=[])


def test_ptx_for_another_chip_only() -> None:
    with pytest.raises(LaunchError, match=r"PTX for sm_90a, which runs on no other chip; the device has sm_100a"):
        emulator.launch(AXPY.replace("sm_100a", "sm_90a"), args=[0, 0, 0.5, 1])
    x, y = np.ones(32, np.float32), np.ones(32, np.float32)
    emulator.launch(AXPY.replace("sm_100a", "sm_90"), args=[x, y, 0.5, 32])


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        ({"grid": (0, 1)}, "the grid's x is 0; allowed is 1 to 2147483647"),
        ({"grid": (1, 1 << 16)}, "the grid's y is 65536; allowed is 1 to 65535"),
        ({"block": (1, 1, 65)}, "the block's z is 65; allowed is 1 to 64"),
        ({"grid": 32, "cluster": 32}, "CTAs of a cluster is 32; allowed is 1 to 16"),
    ],
)
def test_shapes_that_no_device_takes(shape, said) -> None:
    x, y = np.ones(32, np.float32), np.ones(32, np.float32)
    with pytest.raises(LaunchError, match=said):
        emulator.launch(AXPY, args=[x, y, 0.5, 32], **shape)


def test_a_block_has_no_more_threads_than_the_kernel_says() -> None:
    x, y = np.ones(64, np.float32), np.ones(64, np.float32)
    bounded = AXPY.replace(")\n{", ")\n.maxntid 64, 1, 1\n{", 1)
    assert ".maxntid" in bounded
    emulator.launch(bounded, args=[x, y, 0.5, 64], block=64)
    with pytest.raises(LaunchError, match=r"more threads than the kernel's \.maxntid"):
        emulator.launch(bounded, args=[x, y, 0.5, 64], block=96)
