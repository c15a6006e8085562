"""Order between torch's operators, copies, graphs and the host, by programs with and without what orders them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import emulator
from emulator.bridge import order
from emulator.errors import EmulatorError, StreamRace, UseAfterFree
from emulator.host.session import emulated_host

N = 256
Steps = Callable[[], object]


@pytest.fixture(autouse=True)
def host() -> Iterator[None]:
    with emulated_host():
        yield


def on(stream: torch.cuda.Stream, work: Steps) -> object:
    with torch.cuda.stream(stream):
        return work()


def made_before(wait: bool) -> None:
    """Read on another stream what the default stream made before that stream existed."""
    x = torch.ones(N, device="cuda")
    side = torch.cuda.Stream()
    if wait:
        side.wait_stream(torch.cuda.current_stream())
    on(side, lambda: x * 2)


def written_while_read(wait: bool) -> None:
    side, x = torch.cuda.Stream(), torch.ones(N, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    y = on(side, lambda: x * 2)
    if wait:
        torch.cuda.current_stream().wait_stream(side)
    x.add_(1)
    del y


def parts(rows: bool) -> None:
    """Write columns of a matrix on two streams: others, or also a row."""
    x, streams = torch.zeros(16, 16, device="cuda"), [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()
    on(streams[0], lambda: x[:, 3].fill_(1))
    on(streams[1], lambda: (x[:, 4] if rows else x[4]).fill_(2))


def reused(keep: Callable[[torch.Tensor, torch.cuda.Stream], object]) -> None:
    """Free a tensor that another stream uses, then allocate one of its size."""
    side, x = torch.cuda.Stream(), torch.ones(N, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    y = on(side, partial(torch.mul, x, 2))
    kept = keep(x, side)
    del x
    z = torch.zeros(N, device="cuda")
    del y, z, kept


def refilled(wait: bool, write: Callable[[torch.Tensor], object]) -> None:
    """Write to a pinned buffer from which a copy was started."""
    buffer, x = torch.ones(N, pin_memory=True), torch.empty(N, device="cuda")
    x.copy_(buffer, non_blocking=True)
    if wait:
        torch.cuda.synchronize()
    write(buffer)


def read_early(wait: bool, read: Callable[[torch.Tensor], object], copied: Callable[..., torch.Tensor]) -> None:
    buffer = copied(torch.ones(N, device="cuda"))
    if wait:
        torch.cuda.current_stream().synchronize()
    read(buffer)


def into_pinned(x: torch.Tensor) -> torch.Tensor:
    return torch.zeros(N, pin_memory=True).copy_(x, non_blocking=True)


def array(wait: bool, access: Callable[[Any], object], to_host: bool, before: bool) -> None:
    """Access the array of a pinned tensor. before: it was taken before a copy was started."""
    buffer, x = torch.ones(N, pin_memory=True), torch.ones(N, device="cuda")
    array = buffer.numpy() if before else None
    buffer.copy_(x, non_blocking=True) if to_host else x.copy_(buffer, non_blocking=True)
    array = buffer.numpy() if array is None else array
    if wait:
        torch.cuda.synchronize()
    access(array)
    torch.cuda.synchronize()
    buffer.sum()


def graph(free: bool, again: bool = False) -> None:
    x, y, captured = torch.ones(N, device="cuda"), torch.zeros(N, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        y.copy_(x * 2 + 1)
    if free:
        del x
    others = [torch.ones(N, device="cuda") for _ in range(4 * again)]
    captured.replay()
    assert y.tolist() == [3] * N
    del others


def trained(wait: bool) -> None:
    """Compute on another stream, and the gradient on the default stream."""
    side, x = torch.cuda.Stream(), torch.ones(N, device="cuda", requires_grad=True)
    side.wait_stream(torch.cuda.current_stream())
    y = on(side, lambda: (x * x).sum())
    if wait:
        torch.cuda.current_stream().wait_stream(side)
    y.mul(2).backward()  # type: ignore[attr-defined]


def counted(wait: bool, count: Callable[[torch.Tensor], object]) -> None:
    """Read a pinned buffer after a function that waits for the device, because it counts elements there."""
    x, buffer = torch.ones(N, device="cuda"), torch.zeros(N, pin_memory=True)
    buffer.copy_(x, non_blocking=True)
    if wait:
        count(x)
    buffer.sum()


def asked(wait: bool) -> None:
    """Read a pinned buffer after a query of an event, which may say no."""
    buffer, event = into_pinned(torch.ones(N, device="cuda")), torch.cuda.Event()
    event.record()
    while not event.query() and wait:
        pass
    buffer.sum()


def changed_before_gradients(wait: bool) -> None:
    """Change on another stream what the backward pass reads on the stream of the forward pass."""
    x, w, side = torch.ones(N, device="cuda", requires_grad=True), torch.ones(N, device="cuda"), torch.cuda.Stream()
    y = checkpoint(lambda x: (x * w).exp(), x, use_reentrant=False)
    side.wait_stream(torch.cuda.current_stream())
    on(side, lambda: w.mul_(2))
    if wait:
        torch.cuda.current_stream().wait_stream(side)
    y.sum().backward()


def external(wait: bool) -> None:
    """Read on another stream what a graph wrote before, or after, it recorded an event."""
    x, y, side = torch.zeros(N, device="cuda"), torch.zeros(N, device="cuda"), torch.cuda.Stream()
    event, captured = torch.cuda.Event(external=True), torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        (x if wait else y).fill_(1)
        event.record()
        (y if wait else x).fill_(2)
    captured.replay()
    side.wait_event(event)
    on(side, lambda: x * 2)


READS: dict[str, Callable[[torch.Tensor], object]] = {
    "sum": torch.Tensor.sum,
    "item": lambda x: x[3].item(),
    "list": torch.Tensor.tolist,
    "clone": torch.clone,
}
WRITES: dict[str, Callable[[torch.Tensor], object]] = {
    "fill": lambda x: x.fill_(2),
    "item": lambda x: x.__setitem__(slice(0, 4), 2),
    "copy": lambda x: x.copy_(torch.zeros(N)),
}
COUNTS: dict[str, Callable[[torch.Tensor], object]] = {
    "mask": lambda x: x[x > 0],
    "mask of rows": lambda x: x.view(16, 16)[:, x[:16] > 0],
    "nonzero": lambda x: x.nonzero(),
    "where": lambda x: torch.argwhere(x),
    "bincount": lambda x: torch.bincount(x.int()),
    "where of one argument": lambda x: torch.where(x > 0),
    "repeat_interleave": lambda x: torch.repeat_interleave(x, x.int()),
    "assignment by a mask": lambda x: x.__setitem__(x > 0, x.clone()),
}
COPIES: dict[str, Callable[..., torch.Tensor]] = {
    "copy": into_pinned,
    "to": lambda x: x.to("cpu", non_blocking=True),
}
PROGRAMS: dict[str, tuple[Callable[[bool], None], str]] = {
    "made before": (made_before, "the default stream, which wrote it"),
    "written while read": (written_while_read, "which reads it"),
    "parts": (parts, "torch's fill_ on stream"),
    **{f"refilled by {name}": (partial(refilled, write=write), "on the host writes") for name, write in WRITES.items()},
    **{
        f"read early by {name} of {kind}": (partial(read_early, read=read, copied=copied), "on the host reads")
        for name, read in READS.items()
        for kind, copied in COPIES.items()
    },
    **{f"read after {name}": (partial(counted, count=count), "on the host reads") for name, count in COUNTS.items()},
    "read after a query": (asked, "on the host reads"),
    "changed before gradients": (changed_before_gradients, "torch's mul_ on stream"),
    "external event": (external, "torch's fill_"),
    "trained": (trained, "which wrote it"),
}
"""Programs that get whether to wait, and what is reported without."""
REUSES: dict[str, Callable[[torch.Tensor, torch.cuda.Stream], object]] = {
    "record_stream": lambda x, side: x.record_stream(side),
    "a wait": lambda x, side: torch.cuda.current_stream().wait_stream(side),
    "a synchronisation": lambda x, side: side.synchronize(),
    "a reference": lambda x, side: x,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    program, said = PROGRAMS[name]
    program(True)
    torch.cuda.synchronize()
    with pytest.raises(StreamRace, match=said):
        program(False)


@pytest.mark.parametrize("name", REUSES)
def test_memory_in_use_by_another_stream_is_kept(name: str) -> None:
    reused(REUSES[name])


def test_memory_in_use_by_another_stream_is_used_again() -> None:
    with pytest.raises(StreamRace, match="record_stream of the freed tensor for stream"):
        reused(lambda x, side: None)


def test_a_graph_keeps_no_tensor_alive() -> None:
    graph(free=False)
    graph(free=False, again=True)
    for again in (False, True):
        with pytest.raises(UseAfterFree, match=r"freed by the end of its last tensor at .*test_torch_order"):
            graph(free=True, again=again)


def test_a_graph_has_no_nodes_for_views_and_properties() -> None:
    """They are no work of the device: a dependent launch after them depends on the launch before them."""
    x = torch.zeros(N, device="cuda")
    captured: Any = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        view = x.view(16, 16)[2:, 1].detach()
        assert view.data_ptr() > x.data_ptr() and view.stride() == (16,) and x.dtype is torch.float32
        view.add_(1)
        _double, again = view * 2, view.contiguous()
        torch.nn.functional.relu(again, inplace=True)
    assert len(captured._graph.nodes) == 4
    captured.replay()
    assert x.sum() == 14


def test_a_number_for_an_index_and_the_inverse_of_a_mask_are_reads() -> None:
    side, at, mask = torch.cuda.Stream(), torch.tensor(1, device="cuda"), torch.ones(N, dtype=torch.bool, device="cuda")
    side.wait_stream(torch.cuda.current_stream())
    others = on(side, lambda: (at + 1, ~mask))
    assert [3, 4][at] == 4 and not (~mask).any()
    del others


def test_work_without_synchronisation_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers of operations start again, and what comes after them stays in order."""
    monkeypatch.setattr(order, "KEPT", 16)
    side, x = torch.cuda.Stream(), torch.zeros(4, device="cuda")
    for _ in range(100):
        side.wait_stream(torch.cuda.current_stream())
        on(side, lambda: x.add_(1))
        torch.cuda.current_stream().wait_stream(side)
        x.add_(1)
        on(side, lambda: torch.ones(4, device="cuda"))
    with pytest.raises(EmulatorError, match="which wrote it"):
        on(side, lambda: x.add_(1))


@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("to_host", [True, False])
def test_an_array_of_a_pinned_tensor(to_host: bool, before: bool, wait: bool) -> None:
    with emulator.emulate() as device:
        array(wait, (lambda array: array.sum()) if to_host else (lambda array: array.fill(3)), to_host, before)
        said = [str(failure.error) for failure in device.failures]
        device.error = None
    assert len(said) == (not wait)
    assert all(f"an access on the host {'reads' if to_host else 'writes'}" in text for text in said)
