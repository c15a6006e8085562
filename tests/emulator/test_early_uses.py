"""Registers of tcgen05.ld and wgmma that are used before the wait: found in every mode, if the level asks for it."""

from __future__ import annotations

import re

import numpy as np
import pytest
from ptx_launch import kernel, launch
from test_pairs import HERE, MODES, PROGRAMS, line_of

from emulator.errors import Fault, Level, MissingWait

WAIT = "    tcgen05.wait::ld.sync.aligned;\n"


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("name", ["gemm", "staged", "warpgroup"])
def test_waited_for(name: str, completion: str) -> None:
    run((HERE / f"{name}.ptx").read_text(), name, completion)


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize(("name", "load"), [("gemm", "load"), ("staged", "load 1")])
def test_stored_before_the_wait(name: str, load: str, completion: str) -> None:
    head, tail = (HERE / f"{name}.ptx").read_text().split(f"// @{load}\n")
    text = head + f"// @{load}\n" + tail.replace(WAIT, "", 1)
    loaded = line_of(name, load)
    stored = next(i for i, line in enumerate(text.splitlines(), 1) if i > loaded and "st.global" in line)
    with pytest.raises(MissingWait) as caught:
        run(text, name, completion)
    assert (caught.value.line, caught.value.level) == (stored, Level.FORMAL)
    assert re.search(rf"loaded at +PTX line {loaded}: tcgen05\.ld", str(caught.value))
    assert re.search(rf"missing +tcgen05\.wait::ld between PTX lines {loaded} and {stored}", str(caught.value))


ACCUMULATED, READ = "may not have written yet", "may not have read yet"


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize(
    ("mark", "instead", "at", "said"),
    [
        ("wait 1", "", "pack", ACCUMULATED),
        ("wait 1", "wgmma.wait_group.sync.aligned 1;", "pack", ACCUMULATED),
        ("commit 1", "", "pack", ACCUMULATED),
        ("wait 2", "", "store", ACCUMULATED),
        ("between", "mov.u32 %r20, %tid.x; mov.b32 %a0, 0;", "between", READ),
        ("between", "mov.u32 %r20, %tid.x; mov.b32 %f16, 0f00000000;", "between", ACCUMULATED),
    ],
)
def test_used_before_wgmma_was_waited_for(mark: str, instead: str, at: str, said: str, completion: str) -> None:
    lines = (HERE / "warpgroup.ptx").read_text().splitlines()
    lines[line_of("warpgroup", mark) - 1] = instead
    with pytest.raises(MissingWait, match=said) as caught:
        run("\n".join(lines), "warpgroup", completion)
    assert (caught.value.line, caught.value.level) == (line_of("warpgroup", at), Level.FORMAL)
    issued = line_of("warpgroup", "first" if at == "pack" else "second")
    assert re.search(rf"issued at +PTX line {issued}: wgmma", str(caught.value))
    assert re.search(
        rf"missing +wgmma\.wait_group between PTX lines {issued} and {caught.value.line}", str(caught.value)
    )


def run(text: str, name: str, completion: str) -> None:
    program = PROGRAMS[name]
    out = np.zeros_like(program.expected)
    launch(text, (*program.inputs, out), block=(program.threads, 1, 1), completion=completion, level=Level.FORMAL)
    np.testing.assert_array_equal(out, program.expected)


LOADED = """
.reg .b32 %r<9>; .reg .pred %p<3>; .reg .b64 %a<2>; .shared .b8 address[4];
ld.param.b64 %a0, [out]; mov.u32 %r0, %tid.x; mul.wide.u32 %a1, %r0, 4; add.s64 %a0, %a0, %a1; mov.b32 %r1, address;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32; bar.sync 0; ld.shared.b32 %r2, [%r1];
ld.param.u32 %r5, [rounds]; setp.eq.b32 %p0, %r5, 0; mov.b32 %r6, 0; mov.b32 %r7, 0;
tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {%r0}; tcgen05.wait::st.sync.aligned;
BODY
st.global.b32 [%a0], %r7; tcgen05.wait::ld.sync.aligned; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 32; ret;
"""
LOAD, LANDED = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r3}, [%r2];", "tcgen05.wait::ld.sync.aligned;"
BRANCHES = f"@%p0 bra A; {LOAD} A: @%p0 bra B; WAIT B: @%p0 bra C; mov.b32 %r7, %r3; C:"
LOOP = f"""AGAIN: setp.eq.b32 %p1, %r6, %r5; @%p1 bra DONE; setp.eq.b32 %p1, %r6, 0; @%p1 bra FIRST;
add.u32 %r7, %r7, %r3; FIRST: {LOAD} WAIT add.u32 %r6, %r6, 1; bra AGAIN; DONE:"""


def loaded(body: str, rounds: int, completion: str = "lazy", **options: object) -> list[int]:
    text = kernel("k", ".param .u64 out, .param .u32 rounds", LOADED.replace("BODY", body))
    out = np.zeros(32, np.uint32)
    launch(text, [out, rounds], completion=completion, **{"level": Level.FORMAL, **options})  # type: ignore[arg-type]
    return out.tolist()


@pytest.mark.parametrize("completion", MODES)
def test_a_path_that_is_not_taken_is_not_found(completion: str) -> None:
    assert loaded(BRANCHES.replace("WAIT", LANDED), 1, completion) == [*range(32)]
    assert loaded(BRANCHES.replace("WAIT", ""), 0, completion) == [0] * 32
    with pytest.raises(MissingWait, match=r"st uses %r7, which tcgen05\.ld may not have written yet"):
        loaded(BRANCHES.replace("WAIT", ""), 1, completion)


@pytest.mark.parametrize("completion", MODES)
def test_in_the_next_round_of_a_loop(completion: str) -> None:
    assert loaded(LOOP.replace("WAIT", LANDED), 3, completion) == [2 * i for i in range(32)]
    assert loaded(LOOP.replace("WAIT", ""), 1, completion) == [0] * 32
    with pytest.raises(MissingWait, match=r"add uses %r3, which tcgen05\.ld may not have written yet"):
        loaded(LOOP.replace("WAIT", ""), 2, completion)


@pytest.mark.parametrize("completion", MODES)
def test_a_copy_is_followed(completion: str) -> None:
    copies = "mov.b64 %a1, {%r3, %r6}; mov.b64 {%r7, %r6}, %a1;"
    assert loaded(f"{LOAD} {copies} {LANDED} add.u32 %r7, %r7, 1;", 1, completion) == [*range(1, 33)]
    assert loaded(f"{LOAD} {copies} mov.b32 %r7, 4; {LANDED}", 1, completion) == [4] * 32
    with pytest.raises(MissingWait, match=r"add uses %r7, which tcgen05\.ld may not have written yet"):
        loaded(f"{LOAD} {copies} add.u32 %r7, %r7, 1; {LANDED}", 1, completion)


def test_one_load_without_its_wait_is_one_cause() -> None:
    """Its registers are used in several blocks. Another load, whose registers are used too, is a separate cause."""
    pair = "tcgen05.st.sync.aligned.32x32b.x2.b32 [%r2], {%r0, %r0}; tcgen05.wait::st.sync.aligned;"
    pair += "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r3, %r4}, [%r2];"
    uses = "add.u32 %r7, %r3, 0; @%p0 bra A; add.u32 %r7, %r7, %r4; A:"
    found = list[Fault]()
    loaded(f"{pair} {uses} {LANDED}", 1, findings=found, level=Level.FAULT)
    assert [fault.times for fault in found] == [2]
    found.clear()
    loaded(f"{pair} {uses} {LANDED}\n{LOAD} add.u32 %r7, %r3, 0;", 1, findings=found, level=Level.FAULT)
    assert [fault.times for fault in found] == [2, 1]


def test_a_register_written_over_before_the_load_is_waited_for() -> None:
    with pytest.raises(MissingWait, match=r"mov overwrites %r3, which tcgen05\.ld may not have written yet"):
        loaded(f"{LOAD} mov.b32 %r3, 5; {LANDED}", 1)


OVER = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {%r5}; tcgen05.wait::st.sync.aligned;"


@pytest.mark.parametrize("completion", MODES)
def test_a_store_over_what_a_load_may_still_read(completion: str) -> None:
    """The two are not pipelined. If the loaded register was used, the load has completed."""
    options = {"completion": completion, "level": Level.FAULT}
    assert loaded(f"{LOAD} {LANDED} {OVER} mov.b32 %r7, %r3;", 1, **options) == [*range(32)]  # type: ignore[arg-type]
    with pytest.raises(MissingWait, match=r"tcgen05\.st writes tensor memory columns 0 to 0") as caught:
        loaded(f"{LOAD} {OVER} {LANDED} mov.b32 %r7, %r3;", 1, **options)  # type: ignore[arg-type]
    assert re.search(r"missing +tcgen05\.wait::ld in warp 0 of CTA .* after PTX line", str(caught.value))
    with pytest.raises(
        MissingWait, match=r"tcgen05\.st writes tensor memory columns 0 to 0"
    ):  # and not the last one too
        loaded(f"{LOAD} {OVER} {LANDED} mov.b32 %r7, %r3; {OVER}", 1, **options)  # type: ignore[arg-type]
    found = list[Fault]()
    used = f"{LOAD} add.u32 %r7, %r3, 0; {OVER} {LANDED}"
    assert loaded(used, 1, findings=found, **options) == [*range(32)]  # type: ignore[arg-type]
    assert [fault.level for fault in found] == [Level.FORMAL]


def test_by_default_it_is_listed() -> None:
    findings: list[Fault] = []
    body = f"{LOAD} add.u32 %r7, %r3, 0; {LANDED}"
    assert loaded(body, 1, level=Level.FAULT, findings=findings) == [*range(32)]
    assert [type(fault) for fault in findings] == [MissingWait]


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize(
    ("mark", "instead", "at", "said"),
    [
        ("wait b", "", "first", r"is executed .*\n  missing +wgmma\.fence before PTX line {first}"),
        ("fence", "", "second", r"uses %a3 .* touched at +PTX line \d+: cvt.* wgmma\.fence between PTX lines"),
        ("fence", "{line} mov.b32 %f16, 0f00000000;", "second", "uses %f16 .*between PTX lines {fence} and {second}"),
    ],
)
def test_a_product_without_its_fence(mark: str, instead: str, at: str, said: str, completion: str) -> None:
    lines = (HERE / "warpgroup.ptx").read_text().splitlines()
    fence = next(i for i, line in enumerate(lines) if i + 1 >= line_of("warpgroup", mark) and "wgmma.fence" in line)
    lines[fence] = instead.format(line=lines[fence].split("//")[0])
    places = {name: line_of("warpgroup", name) for name in ("first", "second", "fence")}
    with pytest.raises(MissingWait, match="(?s)" + said.format(**places)) as caught:
        run("\n".join(lines), "warpgroup", completion)
    assert (caught.value.line, caught.value.level) == (places[at], Level.FORMAL)


@pytest.mark.parametrize("completion", MODES)
def test_a_product_of_another_shape_needs_a_fence(completion: str) -> None:
    """One of the same shape may reuse its accumulator without a fence, one of another shape needs a fence."""
    lines = (HERE / "warpgroup.ptx").read_text().splitlines()
    at = line_of("warpgroup", "first")
    again = lines[at - 1].split("//")[0]
    half = again.replace("n32", "n16").replace(", " + ", ".join(f"%f{i}" for i in range(8, 16)), "")
    for more in (again, f"wgmma.fence.sync.aligned; {half} wgmma.fence.sync.aligned; {again}"):
        run("\n".join([*lines[:at], more, *lines[at:]]), "warpgroup", completion)
    with pytest.raises(MissingWait, match=rf"uses %f\d+ with no wgmma.fence(?s:.)*between PTX lines {at} and {at + 1}"):
        run("\n".join([*lines[:at], half, *lines[at:]]), "warpgroup", completion)


FREE = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 32; ret;"


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("over", [FREE, f"{OVER} tcgen05.wait::ld.sync.aligned; {FREE}"])
def test_a_load_that_nothing_uses_may_come_too_late(over: str, completion: str) -> None:
    """Through any of its registers. A load before it that is outstanding and used makes it a fault."""
    unused = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r8}, [%r2];"
    for before, level in ((unused, Level.FORMAL), (f"{LOAD} {unused}", Level.FAULT), (LOAD, Level.FAULT)):
        with pytest.raises(MissingWait, match=r"tcgen05\.(st|dealloc) (writes|frees) tensor memory") as caught:
            loaded(f"{before} {over} mov.b32 %r7, %r3;", 1, completion)
        assert caught.value.level == level


FREED = """
.reg .b32 %r<9>; .reg .pred %p0; .reg .b64 %a<2>; .shared .b8 address[4];
ld.param.b64 %a0, [out]; mov.u32 %r0, %tid.x; mul.wide.u32 %a1, %r0, 4; add.s64 %a0, %a0, %a1; mov.b32 %r1, address;
setp.ge.u32 %p0, %r0, 32; @%p0 bra ALL; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 32;
ALL: bar.sync 0; ld.shared.b32 %r2, [%r1]; mov.b32 %r4, 7;
tcgen05.st.sync.aligned.32x32b.x1.b32 [%r2], {%r4}; tcgen05.wait::st.sync.aligned;
BODY
bar.sync 1, 64; @%p0 bra STORE; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 32;
STORE: st.global.b32 [%a0], %r3; ret;
"""


@pytest.mark.parametrize("completion", MODES)
def test_a_load_of_another_warp_that_nothing_uses(completion: str) -> None:
    """It neither makes an ordered load a fault nor hides a fault."""
    unused = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r8}, [%r2];"
    for body, levels in (
        (f"{LOAD} {LANDED} {unused}", [Level.FORMAL]),
        (f"{LOAD} {unused} {LANDED}", []),
        (f"{unused} {LOAD} add.u32 %r3, %r3, 0;", []),
        (f"{LOAD} {unused} add.u32 %r3, %r3, 0; {unused.replace('8', '6')}", [Level.FORMAL]),
        (f"{LOAD} {unused}", [Level.FAULT]),
    ):
        found = list[Fault]()
        out = np.zeros(64, np.uint32)
        text = kernel("k", ".param .u64 out", FREED.replace("BODY", body))
        options = {"completion": completion, "diagnostics": "report", "findings": found}
        launch(text, [out], block=(64, 1, 1), **options)  # type: ignore[arg-type]
        assert (out == 7).all()
        assert [fault.level for fault in found if "frees" in str(fault)] == levels
