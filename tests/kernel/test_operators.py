"""Calls that torch traces: torch.compile, torch.export, FakeTensors and meta tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import emulator
import kernel
from kernel import host
from kernel.serving import host as serving_host
from kernel.serving.flashinfer import trtllm_batch_decode_sparse_mla_dsv4
from kernel.tracing import OPERATORS
from tests.kernel.test_strides import CALLS, Arguments, drawn_plainly
from tests.tiers import shortened, tier


def inputs(name: str) -> Arguments:
    """Return arguments of a call without buffers for its results."""
    return {each: held for each, held in drawn_plainly(name).items() if not each.startswith("out")}


def tensors(found: Any) -> list[torch.Tensor]:
    return [each for each in (found if isinstance(found, tuple) else vars(found).values()) if each is not None]


@pytest.mark.parametrize("name", shortened(2, CALLS, in_ci=4))
def test_fake_and_meta_tensors_have_the_forms_of_results(name: str) -> None:
    call, given = CALLS[name][0], inputs(name)
    with emulator.emulate():
        want = tensors(call(given))
    with FakeTensorMode() as mode:
        fakes = tensors(call({each: mode.from_tensor(held) for each, held in given.items()}))
    meta = tensors(call({each: held.to("meta") for each, held in given.items()}))
    for found in (fakes, meta):
        assert [(each.shape, each.dtype, each.stride()) for each in found] == [
            (each.shape, each.dtype, each.stride()) for each in want
        ]


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        *shortened(4, ((name, backend) for name in CALLS for backend in ("eager", "aot_eager")), in_ci=4),
        *(
            pytest.param(name, "inductor", marks=[pytest.mark.compiler, *tier(False, name == "listed")])
            for name in ("sparse", "dense", "listed")  # an operator each
        ),
    ],
)
def test_a_compiled_call_is_the_call(name: str, backend: str) -> None:
    call, given = CALLS[name][0], inputs(name)
    names, held = list(given), list(given.values())

    def layer(*arguments: torch.Tensor) -> list[torch.Tensor]:
        return [each * 2 for each in tensors(call(dict(zip(names, arguments, strict=True))))]

    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, backend=backend)
    with emulator.emulate(), torch.no_grad():
        found, want = compiled(*held), layer(*held)
    assert all(map(torch.equal, found, want))


@pytest.mark.long
def test_merge_and_flashinfer_s_call_are_compiled_whole() -> None:
    random = torch.Generator().manual_seed(1)
    u = torch.randn(2, 1, 4, 512, generator=random)
    part = kernel.Attention(u.bfloat16(), u[..., 0].clone(), u, u[..., 1].clone())
    pages = torch.randn(9, 64, 512, generator=random).bfloat16()
    numbers = torch.arange(132, dtype=torch.int32).repeat(2, 1)
    lens = {"sparse_topk_lens": numbers[:, 131].clone(), "seq_lens": numbers[:, 90].clone()}

    def layer(q: torch.Tensor) -> list[torch.Tensor]:
        o = trtllm_batch_decode_sparse_mla_dsv4(q, pages, None, numbers, pages, bmm1_scale=0.1, **lens)  # type: ignore[arg-type]
        return [o * 2, kernel.merge([part, part], torch.zeros(4)).o + o]

    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    with emulator.emulate(), torch.no_grad():
        assert all(map(torch.equal, compiled(part.o), layer(part.o)))


@pytest.mark.parametrize("name", shortened(2, CALLS))
def test_an_exported_call_is_the_call(name: str) -> None:
    call, given = CALLS[name][0], inputs(name)

    class Layer(torch.nn.Module):
        def forward(self, given: Arguments) -> list[torch.Tensor]:
            return tensors(call(given))

    with emulator.emulate(), torch.no_grad():
        program = torch.export.export(Layer(), (given,))
        found, want = program.module()(given), tensors(call(given))
    assert all(map(torch.equal, found, want))
    assert any("dsv4_attention" in str(node.target) for node in program.graph.nodes)


@pytest.mark.parametrize("name", shortened(1, ["sparse", "dense", "listed"]))
def test_operators_pass_opcheck(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given, seen = inputs(name), []

    class Seen:
        def __getattr__(self, operator: str) -> Any:
            return lambda *arguments: seen.append((getattr(OPERATORS, operator), arguments))

    for module in (host, serving_host):
        monkeypatch.setattr(module, "OPERATORS", Seen())
        monkeypatch.setattr(module, "traced", lambda q: True)
    CALLS[name][0](given)
    monkeypatch.undo()
    ((operator, arguments),) = seen
    with emulator.emulate():
        torch.library.opcheck(operator.default, arguments)


@pytest.mark.parametrize("name", ["dense", "decode"])
def test_a_call_that_needs_gradients_is_rejected(name: str) -> None:
    call, given = CALLS[name][0], inputs(name)
    given["q"].requires_grad_()
    for made in (call, torch.compile(call, backend="eager", fullgraph=True)):
        with emulator.emulate(), pytest.raises(Exception, match=r"q\.requires_grad.* torch\.no_grad\(\)"):
            made(given)
