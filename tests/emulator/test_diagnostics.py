"""Continuing after ordering errors, and the options of `emulate`."""

import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ptx_launch import kernel, launch
from test_pairs import PROGRAMS, TWINS, Twin, run

import emulator
from emulator.errors import BarrierError, DataRace, Deadlock, Fault, Level, OutOfBounds, UnwrittenRead
from emulator.machine.order.completion import Completion

RACE = """
    .reg .b32 %r<9>; .shared .align 4 .b8 cell[4]; .reg .pred %p;
    mov.u32 %r1, %tid.x; setp.ne.u32 %p, %r1, 0; mov.b32 %r3, 0;
    L: @!%p st.shared.u32 [cell], %r1;
    setp.eq.u32 %p, %r1, 32; @%p st.shared.u32 [cell], %r1;
    add.u32 %r3, %r3, 1; setp.lt.u32 %p, %r3, 5; @%p bra L; ret;
"""


def findings(
    text: str, arguments: tuple[Any, ...] = (), threads: int = 64, ctas: int = 1, level: Level = Level.FAULT
) -> list[Fault]:
    """Return the errors that a launch continued after, even if it then failed."""
    found: list[Fault] = []
    with suppress(Deadlock, BarrierError):
        shape = {"grid": (ctas, 1, 1), "block": (threads, 1, 1), "cluster": (ctas, 1, 1)}
        launch(text, arguments, **shape, diagnostics="report", level=level, findings=found)  # type: ignore[arg-type]
    return found


def test_a_race_is_noted_once_for_its_places_and_the_launch_ends() -> None:
    with pytest.raises(DataRace):
        launch(kernel("k", "", RACE), [], block=(64, 1, 1))
    found = findings(kernel("k", "", RACE))
    assert found and all(type(fault) is DataRace for fault in found)
    assert len({fault.places for fault in found}) == len(found)


UNFENCED = """
    .reg .pred %p; .reg .b32 %r<9>; .reg .b64 %a; .shared .align 128 .b8 words[512]; .shared .align 8 .b8 bars[32];
    mov.u32 %r0, %tid.x; setp.eq.u32 %p, %r0, 0; ld.param.b64 %a, [in];
    INIT
    bar.sync 0;
    COPY
    WAIT
    ret;
"""


def test_one_cause_is_noted_once_with_a_count() -> None:
    """Four mbarriers lack the same fence, and each is used by two copies: 8 pairs of lines."""
    lines = {
        "INIT": "@%p mbarrier.init.shared.b64 [bars+{0}], 1;",
        "COPY": "@%p mbarrier.arrive.expect_tx.shared.b64 _, [bars+{0}], 128;\n"
        + "@%p cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [words+{1}], [%a], 64, [bars+{0}];\n" * 2,
        "WAIT": "L{0}: mbarrier.try_wait.parity.shared.b64 %p, [bars+{0}], 0;\n@!%p bra L{0};",
    }
    body = UNFENCED
    for mark, line in lines.items():
        body = body.replace(mark, "\n".join(line.format(8 * i, 128 * i) for i in range(4)))
    body = body.replace("+0], [%a]", "+64], [%a]", 1)
    source = np.zeros(64, np.uint32)
    found = findings(kernel("k", ".param .u64 in", body), (source,), 32)
    unfenced = [fault for fault in found if "no fence made visible" in str(fault)]
    assert [fault.times for fault in unfenced] == [8]


TOO_EARLY = """
    .reg .b32 %r<9>; .shared .align 4 .b8 cell[4]; .reg .pred %p;
    mov.u32 %r1, %tid.x; setp.lt.u32 %p, %r1, 32; @%p bra GIVE;
    bar.sync 1, 64; ld.shared.u32 %r2, [cell]; bra END;
    GIVE: setp.eq.u32 %p, %r1, 0; @%p st.shared.u32 [cell], 1;
    bar.arrive 1, 64; @%p st.shared.u32 [cell], 2;
    END: ret;
"""


def test_a_write_that_comes_too_early_is_not_to_be_waited_for() -> None:
    with pytest.raises(DataRace) as raised:
        launch(kernel("k", "", TOO_EARLY), [], block=(64, 1, 1), completion="eager", level=Level.FORMAL)
    early = (
        r"missing +an arrival of warp 1 of CTA \(0,0,0\) after its read, on a barrier that warp 0 of CTA \(0,0,0\) "
        r"waits for before PTX line 11: this write came too early, PTX line 9 should read the value that "
        r"PTX line 10 wrote there$"
    )
    assert re.search(early, str(raised.value)), raised.value


HANDED_OVER = """
    .reg .b32 %r<9>; .reg .pred %p<5>; .shared .align 4 .b8 cells[256]; .shared .align 8 .b8 bars[16];
    mov.u32 %r1, %tid.x; mov.b32 %r2, 0; setp.eq.u32 %p0, %r1, 0; setp.ge.u32 %p1, %r1, 32;
    mov.b32 %r3, cells; and.b32 %r4, %r1, 31; mad.lo.u32 %r3, %r4, 4, %r3; add.u32 %r4, %r3, 128;
    @%p0 mbarrier.init.shared.b64 [bars], 32; @%p0 mbarrier.init.shared.b64 [bars+8], 32;
    fence.mbarrier_init.release.cluster; bar.sync 0; @%p1 bra TAKE;
    GIVE: xor.b32 %r5, %r2, 1; and.b32 %r5, %r5, 1;
    EMPTY: mbarrier.try_wait.parity.shared.b64 %p2, [bars+8], %r5; @!%p2 bra EMPTY;
    st.shared.b32 [%r3], %r2; mbarrier.arrive.shared.b64 _, [bars];
    setp.eq.u32 %p3, %r2, EARLY; selp.b32 %r6, %r3, %r4, %p3; st.shared.b32 [%r6], %r2;
    add.u32 %r2, %r2, 1; setp.lt.u32 %p4, %r2, 20; @%p4 bra GIVE; bra END;
    TAKE: and.b32 %r5, %r2, 1;
    FULL: mbarrier.try_wait.parity.shared.b64 %p2, [bars], %r5; @!%p2 bra FULL;
    ld.shared.b32 %r7, [%r3]; mbarrier.arrive.shared.b64 _, [bars+8];
    add.u32 %r2, %r2, 1; setp.lt.u32 %p4, %r2, 20; @%p4 bra TAKE;
    END: ret;
"""


@pytest.mark.parametrize("completion", ["eager", "lazy", "random"])
def test_both_mends_are_said_where_machine_code_has_stored_twice(completion: Completion) -> None:
    """Compiled code does not record that one store replaced another."""
    launch(kernel("k", "", HANDED_OVER.replace("EARLY", "20")), [], block=(64, 1, 1), completion=completion)
    text = kernel("k", "", HANDED_OVER.replace("EARLY", "19"))
    with pytest.raises(DataRace) as raised:
        launch(text, [], block=(64, 1, 1), completion=completion, level=Level.FORMAL)
    both = (
        r"missing +a barrier that warp 0 .* arrives on after PTX line 15 and warp 1 .* waits for before PTX line 19; "
        r"or, if PTX line 19 should read the value before that, an arrival of warp 1 .* after it on a barrier that "
        r"warp 0 .* waits for before PTX line 15$"
    )
    assert re.search(both, str(raised.value)), raised.value


LOADED = """
    .reg .b32 %r<9>; .shared .align 4 .b8 slot[4]; .reg .pred %p;
    mov.u32 %r1, %tid.x; setp.ge.u32 %p, %r1, 32; @%p bra MEET;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;
    MEET: bar.sync 0; ld.shared.u32 %r2, [slot]; setp.lt.u32 %p, %r1, 128; @%p bra LOAD;
    bar.sync 1, 160;
    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {%r1}; bra END;
    LOAD: setp.ge.u32 %p, %r1, 32; @%p bra LEAVE;
    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {%r1}; tcgen05.wait::st.sync.aligned; BEFORE
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r3}, [%r2]; AFTER bra END;
    LEAVE: bar.arrive 1, 160;
    END: ret;
"""


@pytest.mark.parametrize("handed_over", [True, False])
def test_a_load_that_was_not_waited_for_and_perhaps_not_handed_over_either(handed_over: bool) -> None:
    body = LOADED.replace("AFTER" if handed_over else "BEFORE", "bar.arrive 1, 160;")
    body = body.replace("BEFORE", "").replace("AFTER", "")
    with pytest.raises(DataRace) as raised:
        launch(kernel("k", "", body), [], block=(160, 1, 1), level=Level.FORMAL)
    says = r"missing +tcgen05\.wait::ld in warp 0 of CTA \(0,0,0\) after PTX line \d+(.*)$"
    found = re.search(says, str(raised.value))
    assert found, raised.value
    second = (
        ", and a barrier that warp 0 of CTA (0,0,0) arrives on after its tcgen05.wait::ld and warp 4 of CTA (0,0,0)"
    )
    assert found[1].startswith(second) != handed_over


def test_a_copy_that_comes_too_early_is_not_to_be_waited_for() -> None:
    (twin,) = (twin for twin in TWINS if twin.name == "a stage is overwritten before it is free")
    with pytest.raises(DataRace, match="this write came too early, nothing has read the value of PTX line 66"):
        run(twin.program, twin.text(), "eager")


def test_pedantic_findings_are_gone_on_after() -> None:
    body = ".shared .align 8 .b8 bar[8]; .reg .pred p; .reg .b32 r; mov.u32 r, %laneid; setp.eq.u32 p, r, 0;"
    text = kernel("k", "", f"{body} @p mbarrier.init.shared.b64 [bar], 1; bar.sync 0; ret;")
    found: list[Fault] = []
    options = {"diagnostics": "report", "level": Level.PEDANTIC, "findings": found}
    launch(text, [], block=(64, 1, 1), **options)  # type: ignore[arg-type]
    assert [fault.level for fault in found] == [Level.PEDANTIC]


def test_a_good_program_has_no_findings() -> None:
    program = PROGRAMS["gemm"]
    text = (Path(__file__).parent / "pairs/gemm.ptx").read_text()
    out = np.zeros_like(program.expected)
    assert findings(text, (*program.inputs, out), program.threads) == []
    np.testing.assert_array_equal(out, program.expected)


@pytest.mark.parametrize(
    "twin", [t for t in TWINS if t.error in ("MissingProxyFence", "MissingWait", "UnwrittenRead")], ids=lambda t: t.name
)
def test_a_broken_program_reports_what_it_would_have_stopped_at(twin: Twin) -> None:
    program = PROGRAMS[twin.program]
    out = np.zeros_like(program.expected)
    with pytest.raises(Fault) as stopped:
        run(twin.program, twin.text(), "lazy")
    found = findings(twin.text(), (*program.inputs, out), program.threads, program.ctas, Level.FORMAL)
    if "written later at" in str(stopped.value):  # a launch that goes on reports that write itself
        assert (type(found[0]), found[0].line) == (type(stopped.value), stopped.value.line)
        assert isinstance(found[1], DataRace)
    else:
        assert str(found[0]) == str(stopped.value)


def test_an_unwritten_read_gives_poison() -> None:
    out = np.zeros(1, np.uint32)
    body = """.reg .b32 r; .reg .b64 a; .shared .align 4 .b8 cell[4];
    ld.param.u64 a, [out]; ld.shared.u32 r, [cell]; st.global.u32 [a], r; ret;"""
    (found,) = findings(kernel("k", ".param .u64 out", body), (out,), 32)
    assert type(found) is UnwrittenRead and out[0] == 0xFFFF_FFFF


STRAY = """.reg .b32 r; .reg .b64 a, b;
    ld.param.u64 a, [out]; ld.param.u64 b, [in]; ld.global.u32 r, [b+4]; st.global.u32 [a], r; {then} ret;"""


def test_a_read_past_an_allocation_gives_what_is_there() -> None:
    source, out = np.arange(2, dtype=np.uint32) + 7, np.zeros(1, np.uint32)
    text = kernel("k", ".param .u64 in, .param .u64 out", STRAY.format(then=""))
    (found,) = findings(text, (source[:1], out), 32)
    assert type(found) is OutOfBounds and "argument 0" in str(found) and "0 bytes past its end" in str(found)
    assert out[0] == 8


def test_a_write_past_an_allocation_stops() -> None:
    source, out = np.arange(2, dtype=np.uint32), np.zeros(2, np.uint32)
    text = kernel("k", ".param .u64 in, .param .u64 out", STRAY.format(then="st.global.u32 [a+4], 5;"))
    with pytest.raises(OutOfBounds, match=r"st\.global .* outside every allocation"):
        findings(text, (source, out[:1]), 32)
    assert out[1] == 0


def test_a_read_of_what_is_not_mapped_stops() -> None:
    body = ".reg .b32 r; .reg .b64 a; mov.u64 a, 64; ld.global.u32 r, [a]; ret;"
    with pytest.raises(OutOfBounds, match="touches global memory 0x40 to 0x43"):
        findings(kernel("k", "", body), (), 32)


def test_what_has_no_memory_to_go_on_with_stops_all_the_same() -> None:
    with pytest.raises(OutOfBounds):
        findings(kernel("k", "", ".reg .b32 r; ld.shared.u32 r, [0]; ret;"))


@pytest.mark.parametrize(
    ("option", "value", "says"),
    [
        ("completion", "late", "completion is 'late'; allowed: 'eager' or 'lazy' or 'random' or 'all'"),
        ("seed", "x", "seed is 'x'; allowed: an integer"),
        ("budget", 0, "budget is 0; allowed: None or a number of instructions from 1"),
        ("processes", 0, "processes is 0; allowed: None or a number of processes from 1"),
        ("level", "strict", "level is 'strict'; allowed: 'fault' or 'formal' or 'pedantic'"),
        ("numerics", "fp16", "numerics is 'fp16'; allowed: 'fp32' or 'tc'"),
        ("diagnostics", "off", "diagnostics is 'off'; allowed: 'stop' or 'report'"),
    ],
)
def test_options_are_checked_by_name(option: str, value: object, says: str) -> None:
    with pytest.raises(ValueError) as refused, emulator.emulate(**{option: value}):  # type: ignore[arg-type]
        pass
    assert str(refused.value) == says
