"""cp.async: groups per lane, operands, lanes that copy to overlapping bytes."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_kernel import launch, source

from emulator.errors import DataRace, Level, Misaligned, MissingWait, OutOfBounds

MODES = ("eager", "lazy", "random")
HEAD = """.shared .align 128 .b8 box[1024]; .shared .align 8 .b64 full; mov.u32 %r50, box; mov.u32 %r55, full;
shl.b32 %r51, %t, 2; add.u32 %r51, %r51, %r50; add.u64 %q0, %a0, %b; add.u64 %q1, %a1, %b; setp.lt.u32 %p1, %t, 16;"""
COPY = "cp.async.ca.shared.global [%r51], [%q1], 4;"
LATER = "cp.async.ca.shared.global [%r51+256], [%q1], 4;"
COMMIT = "cp.async.commit_group;"
TAKE = "ld.shared.b32 %r1, [%r51]; st.global.b32 [%q0], %r1;"


def run(body: str, completion: str, threads: int = 32, level: Level = Level.FORMAL) -> np.ndarray:
    """Run a body and return the first array. The second contains 1, 2, ..., and is aligned to 16 bytes."""
    out, given = np.zeros(128, np.uint32), np.zeros(132, np.uint32)
    first = -(given.ctypes.data // 4) % 4
    given[first : first + 128] = np.arange(1, 129)
    text = source(HEAD + body + "ret;", 2, block=threads)
    launch(text, out, given[first : first + 128], block=threads, completion=completion, level=level)
    return out[:32]


@pytest.mark.parametrize("completion", MODES)
def test_a_group_is_of_the_lanes_that_commit_it(completion: str) -> None:
    """In a lane that committed one group wait_group 1 waits for nothing, however many groups other lanes committed."""
    right = f"{COPY} {COMMIT} @%p1 {LATER} {COMMIT} cp.async.wait_group 1; {TAKE} cp.async.wait_all;"
    assert (run(right, completion) == np.arange(1, 33)).all()
    with pytest.raises(MissingWait, match="in the lanes that copied, after a commit_group of theirs"):
        run(right.replace(f"{LATER} {COMMIT}", f"{LATER} @%p1 {COMMIT}"), completion)


@pytest.mark.parametrize("completion", MODES)
def test_half_of_the_lanes_commit(completion: str) -> None:
    """Each half commits and waits independently, in any order. A lane without a commit waits for nothing."""
    halves = f"{COPY} @!%p1 {COMMIT} @%p1 {COMMIT} cp.async.wait_group 0; {TAKE}"
    assert (run(halves, completion) == np.arange(1, 33)).all()
    assert (run(f"@%p1 {COPY} @!%p1 {COPY} {COMMIT} cp.async.wait_group 0; {TAKE}", completion) > 0).all()
    rounds = f"mov.b32 %r9, 0; LOOP: {halves} add.u32 %r9, %r9, 1; setp.lt.u32 %p3, %r9, 5; @%p3 bra LOOP;"
    assert (run(rounds, completion) == np.arange(1, 33)).all()
    with pytest.raises(MissingWait, match="after a commit_group of theirs"):
        run(halves.replace(f"@!%p1 {COMMIT}", ""), completion)
    with pytest.raises(MissingWait, match="after a commit_group of theirs"):
        run(halves.replace("cp.async.wait_group", "@%p1 cp.async.wait_group"), completion)


@pytest.mark.parametrize("completion", MODES)
def test_an_arrival_of_copies_tells_of_the_lanes_own(completion: str) -> None:
    arrival = "cp.async.mbarrier.arrive.noinc.shared.b64 [%r55];"
    body = f"""setp.eq.u32 %p0, %t, 0; @%p0 mbarrier.init.shared.b64 [%r55], 16; bar.sync 0;
setp.ge.u32 %p2, %t, 32; @%p2 bra READ; @%p1 {COPY} @%p1 {arrival} ret;
READ: mbarrier.try_wait.parity.shared.b64 %p3, [%r55], 0; @!%p3 bra READ;
setp.lt.u32 %p4, %t, 48; @%p4 ld.shared.b32 %r1, [%r51-128]; @%p4 st.global.b32 [%q0-128], %r1;"""
    assert (run(body, completion, 64)[:16] == np.arange(1, 17)).all()
    others = body.replace(f"@%p1 {COPY}", f"@!%p1 {COPY}").replace("[%r51-128]", "[%r51-64]")
    with pytest.raises(MissingWait, match=r"ld\.shared reads"):
        run(others, completion, 64)


@pytest.mark.parametrize("completion", MODES)
def test_lanes_that_copy_over_one_another(completion: str) -> None:
    """Each lane copies 16 bytes. The copies are adjacent, or overlap by half. Copying equal bytes is not an error."""
    wide = """shl.b32 %r2, %t, 4; and.b32 %r2, %r2, 0xf0; mul.wide.u32 %q2, %r2, 1; add.u64 %q2, %a1, %q2;
add.u32 %r2, %r2, %r50; cp.async.cg.shared.global [%r2], [%q2], 16; cp.async.wait_all; bar.warp.sync -1;"""
    assert (run(wide + TAKE, completion) == np.arange(1, 33)).all()
    with pytest.raises(
        DataRace, match=r"cp\.async writes .* in lane 16 and another value in lane 0: either value may remain"
    ):
        run(wide.replace("%q2, %r2, 1", "%q2, %t, 16"), completion)


@pytest.mark.parametrize("completion", MODES)
def test_what_a_copy_may_be_asked_for(completion: str) -> None:
    sized = "mov.b32 %r2, 4; cp.async.ca.shared.global [%r51], [%q1], 4, %r2; cp.async.wait_all;" + TAKE
    assert (run(sized, completion) == np.arange(1, 33)).all()
    with pytest.raises(OutOfBounds, match="of 4 bytes from a source of 8"):
        run(sized.replace("%r2, 4;", "%r2, 8;"), completion)
    wide = "cp.async.cg.shared.global.L2::cache_hint [%r50], [%a1], 16, %q1; cp.async.wait_all;"
    run(wide, completion)
    with pytest.raises(Misaligned, match=r"cp\.async of 16 bytes .* not a multiple of 16"):
        run(wide.replace("[%a1]", "[%a1+8]"), completion)


@pytest.mark.parametrize("completion", ["eager", "lazy"])
def test_copies_in_a_row_are_checked_each(completion: str) -> None:
    """A warp fills rows, another warp reads one of them, and the first fills all again.

    The report names the copy that races. With a barrier in between there is no report.
    """
    fill = " ".join(f"cp.async.ca.shared.global [%r51+{128 * row}], [%q1], 4;" for row in range(7))

    def again(meet: str) -> np.ndarray:
        body = f"""setp.ge.u32 %p2, %t, 32; @%p2 bra FILLED; {fill} cp.async.wait_all; FILLED: bar.sync 0;
@!%p2 bra READ; ld.shared.b32 %r1, [%r51+384]; READ: {meet} @%p2 bra END; {fill} cp.async.wait_all; {TAKE} END:"""
        return run(body, completion, 64)

    assert (again("bar.sync 0;") == np.arange(1, 33)).all()
    with pytest.raises(DataRace, match=r"not ordered after (ld\.shared that read|cp\.async that wrote)") as found:
        again("")
    assert "[%r51+512], [%q1], 4" in str(found.value)


@pytest.mark.parametrize("completion", MODES)
def test_copies_in_a_row_of_different_sizes_and_lanes(completion: str) -> None:
    """Uncopied bytes become zeros, and inactive lanes are skipped, as with a single copy."""
    sizes = "shr.u32 %r2, %t, 3;"
    half = f"cp.async.ca.shared.global [%r51+256], [%q1], 4, 0; @%p1 {COPY.replace('[%r51]', '[%r51+384]')}"
    row = f"{sizes} {COPY} {half} cp.async.ca.shared.global [%r51+128], [%q1], 4, %r2; cp.async.wait_all;"
    take = "add.u32 %r51, %r51, %r4;" + TAKE

    def found(offset: int) -> np.ndarray:
        return run(f"mov.b32 %r4, {offset}; {row} {take}", completion)

    values = np.arange(1, 33)
    np.testing.assert_array_equal(found(0), values)
    np.testing.assert_array_equal(found(256), 0)
    copied = np.repeat([0, 0xFF, 0xFFFF, 0xFFFFFF], 8)
    np.testing.assert_array_equal(found(128), values & copied)


def test_a_copy_in_a_row_that_is_not_aligned() -> None:
    row = COPY + LATER.replace("[%r51+256]", "[%r51+258]")
    with pytest.raises(Misaligned, match=r"cp\.async of 4 bytes .* not a multiple of 4"):
        run(f"{row} cp.async.wait_all;", "lazy")
