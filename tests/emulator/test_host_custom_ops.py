"""Operators that a library registers for CUDA are called for tensors of the emulated device, and for no others."""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from emulator import NotEmulated
from emulator.host.session import emulated_host

_NAMES = (f"emulator_tests::double_{i}" for i in itertools.count())


@pytest.fixture(autouse=True)
def host() -> Iterator[None]:
    with emulated_host():
        yield


def doubling(device: str | None) -> Any:
    """Return an operator for one device that doubles its argument into memory that it allocates on that device."""

    @torch.library.custom_op(next(_NAMES), mutates_args=(), device_types=device)
    def double(x: torch.Tensor) -> torch.Tensor:
        assert x.is_cuda == (device == "cuda")
        return torch.full((3,), 2.0, device=device) * x

    return double


def test_a_kernel_for_cuda_sees_the_device() -> None:
    double = doubling("cuda")
    answer = double(torch.tensor([1.0, 2.0, 3.0], device="cuda"))
    assert answer.is_cuda
    assert answer.tolist() == [2.0, 4.0, 6.0]
    with pytest.raises(NotImplementedError, match="has no kernel for CPU; it has one for CUDA"):
        double(torch.ones(3))


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_kernel_for_every_device_sees_which_it_is(device: str) -> None:
    @torch.library.custom_op(next(_NAMES), mutates_args=())
    def double(x: torch.Tensor) -> torch.Tensor:
        assert x.device.type == device and torch.empty_like(x).is_cuda == (device == "cuda")
        return x + x

    answer = double(torch.tensor([1.0, 2.0, 3.0], device=device))
    assert answer.device.type == device
    assert answer.tolist() == [2.0, 4.0, 6.0]


def test_an_operator_without_a_kernel_for_cuda_is_refused() -> None:
    double = doubling("cpu")
    assert double(torch.ones(3)).tolist() == [2.0] * 3
    with pytest.raises(NotEmulated, match="on the device"):
        double(torch.ones(3, device="cuda"))


@pytest.mark.parametrize("first", ["cpu", "cuda"])
def test_each_device_has_its_kernel(first: str) -> None:
    sign = doubling(first)
    second = {"cpu": "cuda", "cuda": "cpu"}[first]
    sign.register_kernel(second)(lambda x: -x)
    for device in ("cpu", "cuda"):
        answer = sign(torch.ones(3, device=device))
        assert answer.tolist() == [2.0 if device == first else -1.0] * 3
        assert answer.is_cuda == (device == "cuda")


def test_an_operator_writes_to_its_argument_and_has_a_gradient() -> None:
    @torch.library.custom_op(next(_NAMES), mutates_args={"out"}, device_types="cuda")
    def square_into(x: torch.Tensor, out: torch.Tensor) -> None:
        assert x.is_cuda
        out.copy_(x * x)

    square = doubling("cuda")
    square.register_autograd(lambda ctx, gradient: torch.full((3,), 2.0, device="cuda") * gradient)
    x, out = torch.ones(3, device="cuda", requires_grad=True), torch.zeros(3, device="cuda")
    square_into(x.detach() * 3, out)
    assert out.tolist() == [9.0] * 3
    (answer,) = torch.autograd.grad(square(x).sum(), x)
    assert answer.tolist() == [2.0] * 3


@pytest.mark.parametrize(
    "name", ["neg", "_to_copy"]
)  # an operator with a CPU kernel, and one with a kernel for every device
def test_an_operator_of_torch_has_a_librarys_kernel_on_the_device(name: str) -> None:
    def kernel(x: torch.Tensor, **_: Any) -> torch.Tensor:
        assert x.is_cuda
        return torch.full((2,), 7.0, device="cuda")

    library = torch.library.Library("aten", "IMPL")
    library.impl(name, kernel, "CUDA")
    call = {"neg": torch.neg, "_to_copy": lambda x: x.to(torch.float64)}[name]
    x = torch.ones(2, device="cuda", requires_grad=True)
    assert call(torch.ones(2)).tolist() == [-1.0 if name == "neg" else 1.0] * 2
    assert call(x).tolist() == [7.0] * 2 and call(x).is_cuda
    library._destroy()
    assert call(x).tolist() == call(torch.ones(2)).tolist()


def test_a_kernel_calls_operators_that_the_library_has_too() -> None:
    library = torch.library.Library("aten", "IMPL")
    library.impl("neg", lambda x: torch.abs(x) * 2, "CUDA")
    library.impl("abs", lambda x: torch.full_like(x, 5.0), "CUDA")
    assert torch.neg(torch.ones(2, device="cuda")).tolist() == [10.0] * 2
    library._destroy()


def test_what_torch_makes_on_the_way_to_a_kernel_is_on_the_device() -> None:
    """torch's isclose calls subtraction and absolute value."""
    seen = []

    def kernel(x: torch.Tensor) -> torch.Tensor:
        seen.append(x.is_cuda and x.untyped_storage()._on_emulated_device)  # type: ignore[attr-defined]
        return torch.full_like(x, 0.0)

    library = torch.library.Library("aten", "IMPL")
    library.impl("abs", kernel, "CUDA")
    assert torch.isclose(torch.ones(2, device="cuda"), torch.zeros(2, device="cuda")).tolist() == [True] * 2
    assert seen and all(seen)
    library._destroy()


def test_memory_that_torch_asks_for_on_the_way_to_a_kernel_is_the_devices() -> None:
    """torch's quantile converts ranks to another type and allocates memory without a tensor argument."""
    seen = []

    def kernel(x: torch.Tensor, mask: torch.Tensor, value: float) -> torch.Tensor:
        seen.append(x.is_cuda and x.untyped_storage()._on_emulated_device)  # type: ignore[attr-defined]
        return torch.where(mask, value, x)

    def copy(x: torch.Tensor, device: Any = None, dtype: Any = None, **_: Any) -> torch.Tensor:
        seen.append(device is None or device.type == "cuda")
        return torch.empty_like(x, dtype=dtype).copy_(x)

    library = torch.library.Library("aten", "IMPL")
    library.impl("masked_fill.Scalar", kernel, "CUDA")
    library.impl("_to_copy", copy, "CUDA")
    middle = torch.tensor([0.5], device="cuda")
    assert torch.quantile(torch.arange(3.0, device="cuda"), middle).tolist() == [1.0]
    assert len(seen) > 1 and all(seen)
    library._destroy()


def test_a_kernel_of_an_operator_without_a_schema_waits_for_it() -> None:
    torch.library.Library("aten", "IMPL").impl("bitwise_left_shift", lambda x, y: x, "CUDA")
    assert (torch.ones(2, dtype=torch.int32, device="cuda") << 1).tolist() == [2] * 2
