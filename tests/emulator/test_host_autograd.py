"""torch's autograd on the emulated device: Python backward functions receive tensors of the device."""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from emulator.host.memory import ALIGNMENT
from emulator.host.session import emulated_host
from emulator.host.torch_dispatch import _marking_results


@pytest.fixture(autouse=True)
def host() -> Iterator[None]:
    with emulated_host():
        yield


class Squares(torch.autograd.Function):
    """x squared. `seen` records what its backward function received, by name."""

    seen: dict[str, torch.Tensor]

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        result = x * x
        ctx.save_for_backward(x, result)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        x, result = ctx.saved_tensors
        Squares.seen = {
            "gradient": gradient,
            "saved input": x,
            "saved result": result,
            "made here": torch.empty_like(gradient),
            "made by name": torch.empty(3, device="cuda"),
        }
        return 2 * x * gradient


def grad(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    (answer,) = torch.autograd.grad(y, x)
    return answer


def backward(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    y.backward()
    assert x.grad is not None
    return x.grad


def function_backward(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    torch.autograd.backward([y])
    assert x.grad is not None
    return x.grad


@pytest.mark.parametrize("differentiate", [grad, backward, function_backward])
def test_a_backward_function_sees_the_device(differentiate: Any) -> None:
    x = torch.tensor([1.0, 2.0, 3.0], device="cuda", requires_grad=True)
    answer = differentiate((Squares.apply(x) * torch.tensor([1.0, 1.0, 2.0], device="cuda")).sum(), x)
    for name, tensor in Squares.seen.items():
        assert tensor.is_cuda, name
        assert tensor.data_ptr() % ALIGNMENT == 0, name
    assert answer.is_cuda
    assert answer.tolist() == [2.0, 4.0, 12.0]


def test_a_backward_function_of_the_cpu_stays_there() -> None:
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    assert grad(Squares.apply(x).sum(), x).tolist() == [2.0, 4.0, 6.0]
    assert {name for name, tensor in Squares.seen.items() if tensor.is_cuda} == {"made by name"}


@pytest.mark.parametrize("reentrant", [False, True])
def test_what_is_computed_again_in_the_backward_is_on_the_device(reentrant: bool) -> None:
    sides = []

    def forward(x: torch.Tensor) -> torch.Tensor:
        made = torch.ones(3, device="cuda")
        sides.append((x.is_cuda, made.is_cuda))
        return x * x * made

    x = torch.tensor([1.0, 2.0, 3.0], device="cuda", requires_grad=True)
    y = checkpoint(forward, x, use_reentrant=reentrant, preserve_rng_state=False)
    assert backward(y.sum(), x).tolist() == [2.0, 4.0, 6.0]
    assert sides == [(True, True)] * 2


def test_a_class_method_in_c_is_wrapped_like_one_in_python() -> None:
    """torch 2.15 has Function.apply in C; the lock's torch has it in Python."""
    apply = _marking_results(vars(dict)["fromkeys"], set())
    assert apply(dict, "ab", 1) == {"a": 1, "b": 1}


SAVING = frozenset(
    {"exp", "tanh", "softmax", "sqrt", "logsumexp", "cumprod", "norm", "qr", "svd", "eigh", "elu_", "inv"}
)
"""Some functions of torch that save a result for the backward pass."""


def saved_results(function: Callable[..., Any], device: str, *more: Any) -> set[tuple[str, int]]:
    """Return what the node of a function's first result saved that is one of the results: its name and their number."""
    x = torch.linspace(0.1, 0.9, 32, device=device).reshape(2, 1, 4, 4).requires_grad_()
    try:
        result = function(x * 1, *more)
        results = [each for each in (result if isinstance(result, tuple) else (result,)) if each.numel()]
        node = results[0].grad_fn
        saved = {name: getattr(node, name) for name in dir(node) if name.startswith("_saved_")}
        at = {name: each.data_ptr() for name, each in saved.items() if isinstance(each, torch.Tensor)}
        return {(name, i) for name, one in at.items() for i, each in enumerate(results) if one == each.data_ptr()}
    except Exception:  # it needs other arguments, or has another kind of result
        return set()


@pytest.mark.filterwarnings("ignore")
def test_every_operator_saves_its_result_as_it_is() -> None:
    """Compare with the CPU: a kernel that writes to a result changes the saved tensor, which is no copy."""
    saving = set()
    for owner in (torch, torch.nn.functional, torch.linalg, torch.special):
        functions = {name: value for name, value in vars(owner).items() if callable(value)}
        for name, function in functions.items():
            for more in ((), (-1,), (2,)) if not isinstance(function, type) else ():
                if expected := saved_results(function, "cpu", *more):
                    saving.add(name)
                    assert saved_results(function, "cuda", *more) == expected, name
    assert saving.issuperset(SAVING), sorted(saving)


def zeroed(result: torch.Tensor) -> torch.Tensor:
    """Write zeros as a kernel does, which autograd does not see. Return the result."""
    ctypes.memset(result.data_ptr(), 0, result.numel() * result.element_size())
    return result


@pytest.mark.parametrize("through", ["itself", "view", "alias", "hook", "function"])
def test_a_kernel_over_a_saved_result_changes_the_gradient(through: str) -> None:
    x = torch.rand(8, device="cuda").requires_grad_()
    packed: list[torch.Tensor] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        packed.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t) if through == "hook" else nullcontext():
        y = Squares.apply(x).sigmoid() if through == "function" else x.sigmoid()
    target = {"view": lambda: y[:8].view(2, 4), "alias": y.detach, "hook": lambda: packed[0]}.get(through, lambda: y)()
    zeroed(target)
    assert grad(y.sum(), x).tolist() == [0] * 8
