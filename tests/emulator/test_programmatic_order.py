"""Order of launches that start early: programmatic dependents, and events that a kernel's trigger records."""

from __future__ import annotations

import pytest

import emulator
from emulator.errors import MissingProxyFence
from tests.emulator.test_stream_order import LOAD, LOAD_FLAG, STORE, STORE_FLAG, TRIGGER, WAIT, Gpu, device, found, gpu

__all__ = ["device", "gpu"]


PUBLISHED = "bar.sync 0; griddepcontrol.launch_dependents;"
ADD = f"atom.global.add.u32 %w, [%x], 1; red.relaxed.gpu.global.add.u32 [%x], 1; {STORE_FLAG}"
COPY = """
.shared .align 16 .b8 tile[256]; .shared .b64 full;
mbarrier.init.shared.b64 [full], 1; {fence} mbarrier.arrive.expect_tx.shared.b64 _, [full], 256;
cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [tile], [%start], 256, [full];
W: mbarrier.try_wait.parity.shared.b64 %p, [full], 0; @!%p bra W;
"""
FENCED, UNFENCED = (COPY.format(fence=fence) for fence in ("fence.proxy.async;", ""))


@pytest.mark.parametrize(
    ("bodies", "said"),
    [
        ((TRIGGER + STORE, WAIT + LOAD), ""),
        ((TRIGGER + STORE, LOAD + WAIT), "griddepcontrol.wait before PTX line"),
        ((TRIGGER + STORE, LOAD), "griddepcontrol.wait before PTX line"),
        ((TRIGGER + LOAD, STORE + WAIT), "which reads it"),
        ((TRIGGER + LOAD, LOAD + WAIT), ""),
        ((STORE + PUBLISHED, LOAD), ""),
        ((STORE + TRIGGER, LOAD), "griddepcontrol.wait before PTX line"),  # the other warp may not have stored yet
        ((STORE, LOAD), "griddepcontrol.wait before PTX line"),  # the implicit trigger at its end makes nothing visible
        ((STORE, WAIT + LOAD), ""),
        ((LOAD, STORE), ""),
        ((TRIGGER + STORE, WAIT + UNFENCED), ""),
        ((TRIGGER + STORE, UNFENCED), "griddepcontrol.wait before PTX line"),
        ((STORE + PUBLISHED, UNFENCED), "fence.proxy.async"),
        ((STORE + PUBLISHED, FENCED), ""),
        ((TRIGGER + STORE_FLAG, LOAD_FLAG), ""),
        ((TRIGGER + STORE, WAIT + ADD), ""),
        ((TRIGGER + STORE, ADD + WAIT), "griddepcontrol.wait before PTX line"),
        ((TRIGGER + LOAD + ADD, WAIT + ADD, WAIT + ADD + LOAD), ""),
        # The launch between the two: its wait orders what comes after its trigger, its end, or nothing.
        ((TRIGGER + STORE, WAIT + TRIGGER, LOAD), ""),
        ((TRIGGER + STORE, TRIGGER + WAIT, LOAD), "griddepcontrol.wait before PTX line"),
        ((TRIGGER + STORE, TRIGGER + WAIT, WAIT + LOAD), ""),
        ((TRIGGER + STORE, TRIGGER, WAIT + LOAD), "griddepcontrol.wait in the launch between"),
    ],
)
@pytest.mark.parametrize("captured", [False, True])
def test_programmatic_dependents(
    bodies: tuple[str, ...], said: str, captured: bool, gpu: Gpu, device: emulator.EmulatedDevice
) -> None:
    stream = gpu.stream()

    def launches() -> None:
        for i, body in enumerate(bodies):
            gpu.run(body, stream, after=i > 0)

    if captured:
        gpu.call("cuGraphLaunch", gpu.graph(stream, launches), stream)
    else:
        launches()
    gpu.run(LOAD, stream)  # an ordinary launch comes after all of them
    errors = found(device)
    assert [type(error) for error in errors] == ([] if not said else [type(errors[0])])
    assert all(said in str(error) for error in errors)
    assert said != "fence.proxy.async" or isinstance(errors[0], MissingProxyFence)


@pytest.mark.parametrize("ctas", [1, 2])
def test_a_trigger_before_the_wait_of_its_cta(ctas: int, gpu: Gpu, device: emulator.EmulatedDevice) -> None:
    """An earlier wait of another CTA does not order it."""
    stream = gpu.stream()
    for i, body in enumerate((TRIGGER + STORE, TRIGGER + WAIT, LOAD)):
        gpu.run(body, stream, after=i > 0, ctas=ctas)
    assert "griddepcontrol.wait before PTX line" in str(found(device)[0])


@pytest.mark.parametrize(
    ("body", "at_start", "reader", "said"),
    [
        (TRIGGER + STORE, False, LOAD, "griddepcontrol.wait before PTX line"),
        (TRIGGER + STORE, False, WAIT + LOAD, ""),
        (STORE + PUBLISHED, False, LOAD, ""),
        (STORE + PUBLISHED, True, LOAD, "griddepcontrol.wait before PTX line"),
        (STORE + PUBLISHED, True, WAIT + LOAD, ""),
        (STORE + TRIGGER, False, LOAD, "griddepcontrol.wait before PTX line"),
        (STORE, False, LOAD, "griddepcontrol.wait before PTX line"),
        (LOAD, False, STORE, ""),
    ],
)
@pytest.mark.parametrize("captured", [False, True])
def test_a_programmatic_event(
    body: str, at_start: bool, reader: str, said: str, captured: bool, gpu: Gpu, device: emulator.EmulatedDevice
) -> None:
    """Record an event when a kernel triggers, or when its CTAs start. Let another stream wait for it."""
    one, two, event = gpu.stream(), gpu.stream(), gpu.new("cuEventCreate", 2)

    def launches() -> None:
        gpu.run(body, one, event=event, at_start=at_start)
        gpu.call("cuStreamWaitEvent", two, event, 0)
        gpu.run(reader, two)
        gpu.order(two, one)

    if captured:
        gpu.call("cuGraphLaunch", gpu.graph(one, launches), one)
    else:
        launches()
    errors = found(device)
    assert bool(errors) == (bool(said) and not (captured and at_start))  # in a graph the trigger counts, see limits.md
    assert all(said in str(error) for error in errors)
