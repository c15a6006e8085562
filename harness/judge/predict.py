"""Predictions of the emulator's clock: how long the launches of a case would take on the chip, and what bounds them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from emulator.commands.comparison.places import source_text
from emulator.machine.launch.statistics import GAVE_UP, INSTRUCTIONS, LONGEST, SLEPT
from harness.report import timeline
from harness.report.record import LineTime, Prediction, Role, Wait
from remote.device import Emulated

if TYPE_CHECKING:
    from stages.case import Case
    from stages.verify import Trial


def predicted(
    device: Emulated,
    launches: Callable[[], object],
    mbarriers: Mapping[int, str] | None = None,
    trace: bool = False,
    ranges: bool = False,
    ghz: float | None = None,
    branches: Literal["assumed", "executed"] = "assumed",
    clusters: frozenset[tuple[int, int, int]] = frozenset(),
) -> list[Any]:
    """Return the clock's prediction of each launch that `launches` makes. `mbarriers` are names for the report.

    ghz: a fixed clock rate; None for the chip's own. branches: "executed" if the inputs are those of the prediction, so
    that a cluster may be executed to see how comparisons of data decide. clusters: see emulator/clock/conditions.py.
    """
    with device.timing(device.chip, mbarriers, trace, ranges, ghz, branches, clusters) as emulated:
        launches()
    done: Any = emulated
    return [launched.prediction for launched in done.launches]


#: The least share of each kind of work of a launch that its prediction must have.
LEAST_SEEN = 0.7
#: Operations by which a softmax rescales O. Rows of one cluster only may need it, so that a prediction that branches as
#: another cluster did may lack as many as this share of the instructions; our kernel's at most 0.0012 (D6b).
RESCALING, FEW = frozenset({"tcgen05.ld", "tcgen05.st", "tcgen05.wait::st"}), 0.002
#: The factor by which the branches that a cluster takes on the inputs may lengthen a prediction. The largest of our
#: kernel's cases is 1.17, on an H200 (D6b).
MOST_LONGER = 1.5
#: The least share of each kind of work that two launches of a case have in common, and of the longest warp's.
LEAST_ALIKE = 0.8, 0.5
MOST_LINES = 100


class UnseenWork(AssertionError):
    """A launch does more, or takes longer, than predicted."""


def launching(case: Case, seed: int = 1) -> Callable[[], object]:
    """Draw the inputs of a case, and return a function that launches it."""
    from stages.inputs import draw  # imports CuTeDSL, which must happen after the device is created
    from stages.launch import launch

    return partial(launch, case, draw(case, seed), "cpu")


def timed(case: Case, device: Emulated, seed: int, done: Trial, trace: bool = False) -> list[Any]:
    """Return the predictions of a case's launches on the inputs of `seed`: inputs that a kernel cannot know.

    done: an ordinary launch on these inputs. A clock takes floating-point comparisons to be false, and counts cycles
    while a launch runs: code that depends on either could leave work out where its time counts. So a prediction times
    one cluster of each kind that the launch had, and another one branches as each of them did on these inputs. One of
    both must have the work, and the second may not be much longer. Raises UnseenWork.
    """
    launches, mbarriers = launching(case, seed), _mbarriers(case)
    found = predicted(device, launches, mbarriers, trace, clusters=done.clusters)
    taken = predicted(device, launches, mbarriers, branches="executed", clusters=done.clusters)
    fix = "let no branch depend on a floating-point comparison, the time, or what an earlier launch left"
    if lacking(done.work, found) and (what := lacking(done.work, taken)):
        raise UnseenWork(f"{case} seed={seed}: its launches do {what}; {fix}")
    longer, assumed = (sum(each.cycles for each in predictions) for predictions in (taken, found))
    if longer > MOST_LONGER * assumed:
        raise UnseenWork(
            f"{case} seed={seed}: predicted are {assumed:,.0f} cycles, but {longer:,.0f} with the branches that a "
            f"cluster takes on these inputs; {fix}"
        )
    return found


def lacking(done: Mapping[str, int], found: Sequence[Any]) -> str:
    """Return the first kind of a launch's work that predictions lack, with amounts; "" if they have all."""
    seen = sum((Counter(each.work) for each in found), Counter())
    few = FEW * done.get(INSTRUCTIONS, 0)
    for kind, amount in done.items():
        timed_kind = any(kind in each.work for each in found)
        if timed_kind and seen[kind] + (few if kind in RESCALING else 0) < LEAST_SEEN * amount:
            return f"{amount:,} {kind}, its prediction has {seen[kind]:,.0f} of them"
    return ""


def same_work(case: Case, one: Mapping[str, int], other: Mapping[str, int]) -> None:
    """Compare the work of a case's launches with buffers for the results, which are predicted, and without.

    Raises UnseenWork. The longest warp depends on the order of the sequences, which differs.
    """
    for kind in one.keys() | other.keys():
        with_buffers, without = one.get(kind, 0), other.get(kind, 0)
        few, many = sorted((with_buffers, without))
        if few < LEAST_ALIKE[kind == LONGEST] * many:
            raise UnseenWork(
                f"{case}: its launches do {with_buffers:,} {kind}, but {without:,} if the call allocates its results"
            )


def may_be_slow(done: Mapping[str, int], most: float) -> bool:
    """Return True if a launch slept, gave up a wait, or has a warp with more instructions than its pin has cycles."""
    return bool(done.get(SLEPT) or done.get(GAVE_UP)) or done.get(LONGEST, 0) > most


def predict(case: Case, device: Emulated, seed: int, done: Trial, most: float) -> tuple[Prediction, bytes]:
    """Return the prediction of a case with its pin `most`, and a PNG of its longest launch.

    done: an ordinary launch on these inputs. Raises UnseenWork.
    """
    found = timed(case, device, seed, done, trace=True)
    longest = max(found, key=lambda each: each.cycles)
    names = _names(case)
    prediction = Prediction(
        case.name,
        device.chip.upper(),
        sum(each.cycles for each in found),
        sum(each.seconds for each in found),
        most,
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
