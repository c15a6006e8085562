"""What the emulator's clock says of a case: how long its launches would take on a B200, why, and a picture of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from harness.report import timeline
from harness.report.record import Prediction, Role, Wait
from remote.device import Emulated
from stages.tolerances import most_cycles

if TYPE_CHECKING:
    from stages.case import Case

CHIP = "b200"


def predicted(
    device: Emulated, launches: Callable[[], object], mbarriers: Mapping[int, str] | None = None, trace: bool = False
) -> list[Any]:
    """The clock's prediction of each launch that something makes. mbarriers: their names."""
    with device.timing(CHIP, mbarriers, trace) as emulated:
        launches()
    done: Any = emulated
    return [launched.prediction for launched in done.launches]


def launching(case: Case) -> Callable[[], object]:
    """What launches a case, its inputs drawn now."""
    from stages.case import draw, launch  # CuTeDSL is imported with the kernel, and after the device that wants its PTX

    return partial(launch, case, draw(case, 1), "cpu")


def predict(case: Case, device: Emulated) -> tuple[Prediction, bytes]:
    """A case beside the cycles that its milestone pins, and its longest launch as a PNG. Raises PinError."""
    found = predicted(device, launching(case), case.config.mbarriers, trace=True)
    longest = max(found, key=lambda each: each.cycles)
    names = _names(case)
    prediction = Prediction(
        case.name,
        CHIP.upper(),
        sum(each.cycles for each in found),
        sum(each.seconds for each in found),
        most_cycles(case.milestone),
        longest.bound,
        {part: round(share, 4) for part, share in longest.busy.items()},
        list(_roles(longest, names)),
        list(longest.assumptions),
    )
    return prediction, timeline.picture(longest.trace.json(), names)


def over_time(case: Case, device: Emulated, named: Iterable[int]) -> bytes:
    """Warps and barriers of a case that fell, in modelled time up to where it stops, as a PNG; empty if nothing ran.

    named: PTX lines that the report of its fault names.
    """
    launches = launching(case)
    with device.timing(CHIP, case.config.mbarriers, trace=True) as emulated, suppress(Exception):
        launches()  # it is broken: how it ends here adds nothing to the report
    ran: Any = emulated
    return b"" if ran.recorder is None else timeline.picture(ran.recorder.json(), _names(case), named)


def _names(case: Case) -> dict[int, str]:
    return {warp: name for name, warps in vars(case.config.roles).items() for warp in warps}


def _roles(longest: Any, names: Mapping[int, str]) -> Iterator[Role]:
    for role in longest.roles:
        plural = "s" if len(role.warps) > 1 else ""
        name = f"{names.get(role.warps[0], 'no role')}: warp{plural} {', '.join(map(str, role.warps))}"
        waits = [
            Wait(each.what, each.source or f"PTX line {each.line}", each.cycles / role.cycles, each.times)
            for each in role.waits
        ]
        yield Role(name, role.running / role.cycles, waits)
