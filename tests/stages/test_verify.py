"""Verification of a kernel against its pins, with stub launches whose outcome the test sets."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import pytest
import torch

import kernel
from stages import calls, d3
from stages import verify as verifying
from stages.buffers import WroteOutside
from stages.case import Case
from stages.check import Figure
from stages.d1_1 import CASES
from stages.inputs import Inputs, Poison, draw
from stages.launch import Order, launch
from stages.verify import Result, reject_negative_controls, verify

CASE = CASES[0]


class Device:
    """A device that runs nothing, and records the current mode."""

    name = "test"
    modes: tuple[str, ...] = ("eager", "lazy")
    torch_device = "cpu"
    is_gpu = False
    mode = ""

    @contextmanager
    def running(self, mode: str, seed: int, mbarriers: Mapping[int, str] | None = None) -> Iterator[None]:
        self.mode = mode
        yield


class Notebook:
    """A recorder that keeps results in memory."""

    def __init__(self) -> None:
        self.results: list[Result] = []
        self.negative_controls: dict[str, tuple[Figure, ...]] = {}

    def result(self, result: Result) -> None:
        self.results.append(result)

    def negative_control(self, name: str, rejected_by: tuple[Figure, ...]) -> None:
        self.negative_controls[name] = rejected_by


def exact(inputs: Inputs) -> kernel.Attention:
    part = kernel.reference.branch(inputs.q, inputs.k, inputs.v)
    return kernel.Attention(o=part.o.bfloat16(), lse=part.lse.float(), u=part.u.float(), m=part.m.float())


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Device:
    monkeypatch.setattr(calls.Python, "compile_s", lambda self, case: 0.0)
    return Device()


def launching(monkeypatch: pytest.MonkeyPatch, device: Device, **wrong: object) -> None:
    """Make launches return the exact result. `wrong` maps a mode to an error to raise, or to a change of the result."""

    def launch(
        case: Case, inputs: Inputs, torch_device: str, poison: Poison, order: Order, guarded: bool
    ) -> kernel.Attention:
        attention, what = exact(inputs), wrong.get(device.mode)
        if isinstance(what, Exception):
            raise what
        if callable(what):
            what(attention)
        return attention

    monkeypatch.setattr(verifying, "launch", launch)


def test_a_right_kernel_holds(monkeypatch: pytest.MonkeyPatch, device: Device) -> None:
    launching(monkeypatch, device)
    book = Notebook()
    verify(CASE, 1, device, book)
    (result,) = book.results
    assert [launch.mode for launch in result.trials] == ["eager", "lazy"]
    assert {figure.tensor for figure in result.figures} == {"O", "U", "lse", "m"}
    assert all(figure.holds for figure in result.figures)


def test_a_figure_outside_its_pin_is_named_with_its_case(monkeypatch: pytest.MonkeyPatch, device: Device) -> None:
    launching(monkeypatch, device, eager=lambda out: out.lse.add_(1e-3), lazy=lambda out: out.lse.add_(1e-3))
    said = (
        r"D1.1 hd=64 n=128 seed=1: outside its pins\nU.z_factor = .* FAILS\n"
        r"lse.error = .* FAILS\nlse.element_or = .* FAILS\nlse.limit = .* FAILS\nU is worst in row \d+: .*\n"
        r"lse is worst in row \d+: .*\n  100% of the rows are too high, by 0.001 in the median$"
    )
    book = Notebook()
    with pytest.raises(AssertionError, match=said):
        verify(CASE, 1, device, book)
    assert len(book.results) == 1, "what failed is in the record too"


def test_one_bit_between_modes_fails(monkeypatch: pytest.MonkeyPatch, device: Device) -> None:
    def flip(out: kernel.Attention) -> None:
        out.o.view(torch.int16)[0, 0, 0, 0] ^= 1

    launching(monkeypatch, device, lazy=flip)
    with pytest.raises(AssertionError, match="seed=1: o differ in bits between eager and lazy completion"):
        verify(CASE, 1, device, Notebook())


def test_an_error_in_one_mode_is_raised_with_the_outcome_of_the_others(
    monkeypatch: pytest.MonkeyPatch, device: Device
) -> None:
    error = RuntimeError("PTX line 12")
    launching(monkeypatch, device, lazy=error)
    book = Notebook()
    with pytest.raises(RuntimeError, match="PTX line 12") as caught:
        verify(CASE, 1, device, book)
    assert caught.value.__notes__ == ["in D1.1 hd=64 n=128 seed=1 under lazy completion (eager ended, lazy failed)"]
    assert [launch.error for launch in book.results[0].trials] == [None, error]
    assert book.results[0].figures, "the mode that ended is measured all the same"


def test_a_comparison_that_accepts_a_negative_control_fails(monkeypatch: pytest.MonkeyPatch, device: Device) -> None:
    book = Notebook()
    reject_negative_controls(CASE, 1, device, book)
    assert all(book.negative_controls.values())
    accept_all: list[Figure] = []
    monkeypatch.setattr(verifying, "compare", lambda *_, **__: accept_all)
    with pytest.raises(AssertionError, match="accepts O: scaled by 2; "):
        reject_negative_controls(CASE, 1, device, Notebook())


def test_a_comparison_that_rejects_the_correct_output_fails(monkeypatch: pytest.MonkeyPatch, device: Device) -> None:
    monkeypatch.setattr(verifying, "stored", lambda want: {k: v * 1.5 for k, v in want.items()})
    with pytest.raises(AssertionError, match="rejects the rounded reference"):
        reject_negative_controls(CASE, 1, device, Notebook())


def test_buffers_are_poisoned_before_the_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[kernel.Attention] = []

    def fmha(*_: torch.Tensor, out: kernel.Attention, **options: object) -> kernel.Attention:
        seen.append(out)
        return out

    monkeypatch.setattr(kernel, "fmha", fmha)
    launch(CASE, draw(CASE, 1), "cpu")
    assert all(getattr(seen[0], name).isnan().all() for name in verifying.NAMES)


@pytest.mark.parametrize("constant", [False, True], ids=["lengths of the call", "lengths as constants"])
def test_code_that_has_the_lengths_of_a_case_as_constants_is_wrong(
    constant: bool, monkeypatch: pytest.MonkeyPatch, device: Device
) -> None:
    case = d3.CASES[4]

    def fmha(
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
        swa_lens: torch.Tensor,
        out: kernel.Attention | None,
        **_: object,
    ) -> kernel.Attention:
        lens = case.lens if constant else tuple(swa_lens.tolist())
        clean = (each.where(each.abs() < 1e9, 0.0) for each in (k, v))  # NaN and large numbers are poison
        part = kernel.reference.branch(q, *clean, visible=replace(case, lens=lens).visible)
        exact = kernel.Attention(o=part.o.bfloat16(), lse=part.lse.float(), u=part.u.float(), m=part.m.float())
        for name, tensor in vars(exact).items() if out is not None else ():
            getattr(out, name).copy_(tensor)
        return out or exact

    monkeypatch.setattr(kernel, "fmha", fmha)
    with pytest.raises(AssertionError, match="outside its pins") if constant else nullcontext():
        verify(case, 7, device, Notebook())


@pytest.mark.parametrize(
    "change", [lambda q: q[0, 0, 5].fill_(1.0), lambda q: beside(q).fill_(1.0)], ids=["in a row", "between rows"]
)
def test_a_launch_may_not_change_its_inputs(
    change: Callable[[torch.Tensor], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fmha(q: torch.Tensor, *_: torch.Tensor, out: kernel.Attention, **options: object) -> kernel.Attention:
        change(q)
        return out

    monkeypatch.setattr(kernel, "fmha", fmha)
    with pytest.raises(WroteOutside, match="bytes of the input q, or between its slices, changed"):
        launch(replace(CASE, strided=True), draw(CASE, 1), "cpu")


def beside(q: torch.Tensor) -> torch.Tensor:
    """Return the element after the first row of a tensor [batch, tokens, heads, head_dim]."""
    return q.as_strided((1,), (1,), q.storage_offset() + q.shape[3])


def test_a_case_knows_its_configuration() -> None:
    assert Case("D1.1", head_dim=64, keys=128).config == kernel.FmhaConfig(head_dim=64)
