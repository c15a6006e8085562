"""Predictions of the emulator's clock: how long the launches of a case would take on the chip, and what bounds them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from emulator.clock.uncertainty import mean_error
from emulator.commands.comparison.places import source_text
from harness.report import timeline
from harness.report.record import LineTime, Prediction, Role, Wait
from remote.device import Emulated
from stages.tolerances import most_cycles

if TYPE_CHECKING:
    from stages.case import Case


def predicted(
    device: Emulated,
    launches: Callable[[], object],
    mbarriers: Mapping[int, str] | None = None,
    trace: bool = False,
    ranges: bool = False,
    ghz: float | None = None,
    branches: Literal["assumed", "executed"] = "assumed",
) -> list[Any]:
    """Return the clock's prediction of each launch that `launches` makes. `mbarriers` are names for the report.

    ghz: a fixed clock rate; None for the chip's own. branches: "executed" if the inputs are those of the prediction, so
    that a cluster may be executed to see how comparisons of data decide.
    """
    with device.timing(device.chip, mbarriers, trace, ranges, ghz, branches) as emulated:
        launches()
    done: Any = emulated
    return [launched.prediction for launched in done.launches]


#: The least share of the flops, and of the instructions, of a launch that its prediction must have. Moves and
#: addresses cost a prediction nothing. The least that our kernel's first cases have: on a B200 (D1.1 to D6f) 1.00 of
#: the flops and 0.52 of the instructions (D1.2), on an H200 (D1.1 to D5d) 1.00 and 0.51 (D1.4).
LEAST_SEEN = (0.9, 0.3)
#: The factor by which the branches that a cluster takes on the inputs may lengthen a prediction. The largest of our
#: kernel's first cases is 1.17, on an H200 (D6b).
MOST_LONGER = 1.5
MOST_LINES = 100


class UnseenWork(AssertionError):
    """A launch does more, or takes longer, than predicted."""


def launching(case: Case, seed: int = 1) -> Callable[[], object]:
    """Draw the inputs of a case, and return a function that launches it."""
    from stages.inputs import draw  # imports CuTeDSL, which must happen after the device is created
    from stages.launch import launch

    return partial(launch, case, draw(case, seed), "cpu")


def timed(case: Case, device: Emulated, seed: int, trace: bool = False) -> list[Any]:
    """Return the predictions of a case's launches on the inputs of `seed`: inputs that a kernel cannot know."""
    return predicted(device, launching(case, seed), _mbarriers(case), trace)


def predict(case: Case, device: Emulated, seed: int) -> tuple[Prediction, bytes]:
    """Return the prediction of a case with its milestone's pin, and a PNG of its longest launch.

    Raises UnseenWork or PinError.
    """
    found = timed(case, device, seed, trace=True)
    check_work(case, device, seed, found)
    check_branches(case, device, seed, found)
    longest = max(found, key=lambda each: each.cycles)
    names = _names(case)
    prediction = Prediction(
        case.name,
        device.chip.upper(),
        sum(each.cycles for each in found),
        sum(each.seconds for each in found),
        most_cycles(case.milestone, mean_error(device.chip), device.chip),
        longest.bound,
        {part: round(share, 4) for part, share in longest.busy.items()},
        list(_roles(longest, names)),
        list(longest.assumptions),
        lines=list(_lines(longest)),
    )
    return prediction, timeline.picture(longest.trace.json(), names)


def over_time(case: Case, device: Emulated, named: Iterable[int]) -> bytes:
    """Return a PNG of warps and barriers of a failing case over modelled time, until it stops; b"" if nothing ran.

    `named` are the PTX lines in the report of its error.
    """
    launches = launching(case)
    with device.timing(device.chip, _mbarriers(case), trace=True) as emulated, suppress(Exception):
        launches()  # it fails with the error that the report already has
    ran: Any = emulated
    return b"" if ran.recorder is None else timeline.picture(ran.recorder.json(), _names(case), named)


def check_work(case: Case, device: Emulated, seed: int, found: Sequence[Any]) -> None:
    """Compare the work in predictions with the launches' own work. Raises UnseenWork.

    A clock takes floating-point comparisons to be false, and counts cycles while a launch runs. Code that depends on
    either could leave work out where its time counts.
    """
    with device.running("eager", seed, _mbarriers(case)) as emulated:
        launching(case, seed)()
    ran: Any = emulated
    done = sum(each.stats.mma_flops for each in ran.launches), sum(each.stats.instructions for each in ran.launches)
    seen = sum(each.flops for each in found), sum(each.instructions for each in found)
    for what, least, of, at_least in zip(("flops", "instructions"), LEAST_SEEN, done, seen, strict=True):
        if at_least < least * of:
            raise UnseenWork(
                f"{case} seed={seed}: its launches do {of:,} {what}, its prediction has {at_least:,.0f} of them; "
                f"let no branch depend on a floating-point comparison, the time, or what an earlier launch left"
            )


def check_branches(case: Case, device: Emulated, seed: int, found: Sequence[Any]) -> None:
    """Compare predictions with others that take the branches of one executed cluster. Raises UnseenWork.

    Sleeps, waits and copies behind a comparison are hardly any instructions, so that `check_work` does not see them.
    """
    taken = predicted(device, launching(case, seed), _mbarriers(case), branches="executed")
    longer, assumed = (sum(each.cycles for each in predictions) for predictions in (taken, found))
    if longer > MOST_LONGER * assumed:
        raise UnseenWork(
            f"{case} seed={seed}: predicted are {assumed:,.0f} cycles, but {longer:,.0f} with the branches that a "
            f"cluster takes on these inputs; let no branch depend on a floating-point comparison that adds so much time"
        )


def _mbarriers(case: Case) -> Mapping[int, str]:
    from stages.calls import callers

    return callers[-1].mbarriers(case)


def _names(case: Case) -> dict[int, str]:
    from stages.calls import callers

    return callers[-1].warps(case)


def _lines(longest: Any) -> Iterator[LineTime]:
    """Yield the source lines in which the warps spend most of their time."""
    for line in longest.lines[:MOST_LINES]:
        yield LineTime(line.where, source_text(line.where), line.share)


def _roles(longest: Any, names: Mapping[int, str]) -> Iterator[Role]:
    for role in longest.roles:
        plural = "s" if len(role.warps) > 1 else ""
        name = f"{names.get(role.warps[0], 'no role')}: warp{plural} {', '.join(map(str, role.warps))}"
        waits = [Wait(each.what, each.where, each.cycles / role.cycles, each.times) for each in role.long_waits]
        yield Role(name, role.running / role.cycles, waits)
