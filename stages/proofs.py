"""Features that the recorded launches of a case must show, because no figure of its results proves them.

A kernel without such a feature computes the same results. So the judge reads the PTX and the launches that were
recorded (harness/judge/shown.py), and this table says what they must have. Where the kernel for a chip does not have a
feature, the table has the reason instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from stages.caches import NAMES
from stages.calls import launches
from stages.case import TILE, Case
from stages.catalog import GATE

Chip = Literal["sm_90", "sm_100"]
HEADS_AS_COLUMNS = (16, 32, 64)
MOST_TOGETHER = 2  # CTAs of a cluster that load KV tiles together on sm_90


@dataclass(frozen=True)
class Shown:
    """A recorded launch, and what the PTX of its kernel shows.

    ctas: of the grid. cluster: CTAs of a cluster. products: QK and PV, which V, the transposed operand, tells apart.
    p_from: the memory from which PV reads P. mma_ctas: CTAs of a matrix instruction. accumulators: the number of
    PV's. columns: those of the products if V is the first operand, else none. copies: how keys get into shared
    memory. reads: tensors of the call whose memory the launch was given. exchanges: a CTA accesses the shared memory of
    another one of its cluster.
    """

    ctas: int
    cluster: int
    products: frozenset[str]
    p_from: frozenset[str]
    mma_ctas: frozenset[int]
    accumulators: int
    columns: frozenset[int]
    copies: frozenset[str]
    reads: frozenset[str]
    exchanges: bool


Check = Callable[[Case, Shown], str]
"""Returns what a launch shows instead of a feature, "" if it shows the feature."""


@dataclass(frozen=True)
class Feature:
    """A feature, the cases that must have it, and by chip how a launch shows it, or why it is not required.

    in_one: with a launch for each branch, one of them shows it.
    """

    name: str
    of: Callable[[Case], bool]
    sm_100: Check | str
    sm_90: Check | str
    in_one: bool = False


class Unproven(AssertionError):
    """The recording of a case does not show one of its features."""


def asked(case: Case) -> list[Feature]:
    """Return the features that a case must have."""
    return [each for each in FEATURES if each.of(case)]


def proven(case: Case, chip: Chip, shown: Sequence[Shown]) -> tuple[list[str], dict[str, str]]:
    """Return the features that the launches of a case show, and those that are not required, with the reason.

    Raises Unproven for the first one that is missing.
    """
    if len(shown) != launches(case):
        raise Unproven(f"{case} takes {len(shown)} launches, not {launches(case)}")
    names, reasons = [], {}
    for feature in asked(case):
        check: Check | str = getattr(feature, chip)
        if isinstance(check, str):
            reasons[feature.name] = check
            continue
        instead = [found for each in shown if (found := check(case, each))]
        if len(instead) > (len(shown) - 1 if feature.in_one else 0):
            raise Unproven(f"{case} does not show {feature.name}: {instead[0]}")
        names.append(feature.name)
    return names, reasons


def _p_in_tmem(case: Case) -> bool:
    return case.p_path == "tmem" or case.milestone == GATE.id


def _two_q_tiles(case: Case) -> bool:
    """Return True if a sequence has more rows than a Q tile, and neither P nor lists of keys prevent a second one."""
    fits = case.head_dim <= 128 and case.p_path != "smem" and not case.by_token
    return fits and case.splits == 1 and case.tokens * case.heads > TILE


def _quantised(case: Case) -> bool:
    return case.served is not None and any(each.layout != "bf16" for each in case.served.caches)


def _swapped(case: Case) -> bool:
    """Return True if heads are few, or keys are converted without a CTA pair. With 576 columns they are not swapped."""
    if case.served is None or case.head_dim != case.value_dim or case.pairs:
        return False
    either = case.splits == "auto" and case.heads % TILE == 0  # the kernel may choose a CTA pair
    return not either and (_quantised(case) or case.heads <= 32)


def _heads_as_columns(case: Case, shown: Shown) -> str:
    least = next((each for each in HEADS_AS_COLUMNS if each >= case.heads), HEADS_AS_COLUMNS[-1])
    allowed = HEADS_AS_COLUMNS if case.splits == "auto" else (least,)
    if len(shown.columns) == 1 and shown.columns <= set(allowed):
        return ""
    return f"its products with V as the first operand have {_words(shown.columns)} columns, not {_words(allowed, 'or')}"


def _p_from(memory: str) -> Check:
    return lambda case, shown: _unless(shown.p_from == {memory}, f"PV reads P from {_words(shown.p_from)}")


def _pair(case: Case, shown: Shown) -> str:
    return _unless(shown.mma_ctas == {2}, f"its MMAs have cta_group::{_words(shown.mma_ctas)}")


def _tiles_of_q(case: Case, shown: Shown) -> str:
    return _unless(shown.accumulators == 2, f"the number of PV's accumulators is {shown.accumulators}")


def _split(together: int = 1) -> Check:
    """Return the check that a cluster has the CTAs of all splits, each of which may be `together` CTAs."""

    def check(case: Case, shown: Shown) -> str:
        allowed = {case.splits, case.splits * together}
        exchanges = _unless(shown.exchanges, "no CTA accesses the shared memory of another one")
        return _unless(shown.cluster in allowed, f"its clusters have {shown.cluster} CTAs") or exchanges

    return check


def _whole(most: int | None = None) -> Check:
    def check(case: Case, shown: Shown) -> str:
        allowed = most or max(shown.mma_ctas, default=1)
        return _unless(shown.cluster <= allowed, f"its clusters have {shown.cluster} CTAs, more than {allowed}")

    return check


def _few_ctas(case: Case, shown: Shown) -> str:
    return _unless(shown.ctas <= (case.sms or 0), f"its grid has {shown.ctas} CTAs, with sms={case.sms}")


def _copies(*ways: str) -> Check:
    return lambda case, shown: _unless(bool(shown.copies & set(ways)), f"it copies by {_words(shown.copies)}")


def _gathers_or_loads_pages(case: Case, shown: Shown) -> str:
    """Check that keys are gathered, or loaded by TMA if tokens see all keys of pages that hold whole KV tiles."""
    page = case.served.whole_page if case.served else 0
    ways = ("TMA",) if page and page % KEYS == 0 else ("cp.async", "TMA gather")
    return _copies(*ways)(case, shown)


def _caches_themselves(case: Case, shown: Shown) -> str:
    caches = set(NAMES[: len(case.served.caches)] if case.served else ())
    return _unless(caches <= shown.reads, f"of {_words(caches)} it is given {_words(caches & shown.reads)}")


def _both(case: Case, shown: Shown) -> str:
    return _unless(len(shown.products) == 2, f"its MMAs compute {_words(shown.products)}")


def _unless(holds: bool, otherwise: str) -> str:
    return "" if holds else otherwise


def _words(found: Collection[object], joined: str = "and") -> str:
    return f" {joined} ".join(sorted(map(str, found))) or "nothing"


KEYS = 64  # of a KV tile at head dim 512 on sm_90a
WARPGROUPS = "a wgmma is of one CTA"
REGISTERS = "a warpgroup has P in registers; at head dim 512 the other one reads it from shared memory"
CHOSEN = "the kernel weighs the exchange against the keys"

# fmt: off
FEATURES = (
    Feature("both products in one launch", lambda case: True, _both, _both),
    Feature("P in tensor memory", _p_in_tmem, _p_from("tensor memory"), REGISTERS),
    Feature("P in shared memory", lambda case: case.p_path == "smem", _p_from("shared memory"), REGISTERS),
    Feature("2-CTA MMA", lambda case: case.pairs, _pair, WARPGROUPS),
    Feature("two Q tiles", _two_q_tiles, _tiles_of_q, "each warpgroup of every CTA has a Q tile of its own"),
    Feature("operands swapped", _swapped, _heads_as_columns, "a wgmma has 64 rows, and registers for no more keys"),
    Feature("split keys", lambda case: case.splits not in (1, "auto"), _split(), _split(MOST_TOGETHER)),
    Feature("split keys by choice", lambda case: case.splits == "auto", CHOSEN, CHOSEN),
    Feature("whole keys", lambda case: case.splits == 1, _whole(), _whole(MOST_TOGETHER)),
    Feature("CTAs up to sms", lambda case: case.sms is not None and case.splits == 1, _few_ctas, _few_ctas),
    Feature("keys by TMA", lambda case: not case.by_token, _copies("TMA"), _copies("TMA")),
    Feature("listed keys gathered", lambda case: case.by_token and not _quantised(case),
            _copies("cp.async", "TMA gather"), _gathers_or_loads_pages, in_one=True),
    Feature("codes converted in the kernel", _quantised, _caches_themselves, _caches_themselves),
)
# fmt: on
