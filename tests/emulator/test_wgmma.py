"""wgmma.mma_async against exact integer products, with operands and results laid out by CuTe's layouts."""

from __future__ import annotations

import numpy as np
import pytest
from test_pairs import HERE, MODES, PROGRAMS, run
from wgmma_program import FORMS, Form, bits_of, exact

from emulator import errors
from emulator.machine.launch.launch import Numerics
from emulator.program import Program
from emulator.ptx.parser import parse


def integers(form: Form) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw A, B and D of numbers that every type represents."""
    rng = np.random.default_rng(form.n)
    low, high = (0, 2) if form.a == "b1" else (0 if "u8" in (form.a, form.b) else -4, 5)
    a, b = (rng.integers(low, high, (rows, form.k)) for rows in (64, form.n))
    return a, b, rng.integers(-8, 9, (64, form.n))


#: Every n is a form of its own. The other forms have these, too.
EVERY_N = [Form(n, "f32", "bf16", "bf16") for n in range(8, 257, 8) if n not in (8, 16, 72, 256)]


@pytest.mark.parametrize(
    "form", [pytest.param(form, id=str(form), marks=[pytest.mark.long] if form in EVERY_N else []) for form in FORMS]
)
def test_product(form: Form) -> None:
    a, b, d = integers(form)
    for first in (False, True):
        got = form.run(bits_of(a, form.a), bits_of(b, form.b), bits_of(d, form.to), first)
        np.testing.assert_array_equal(got, bits_of(exact(form, a, b, d, first), form.to))


@pytest.mark.parametrize("numerics", ["fp32", "tc"])
@pytest.mark.parametrize("kind", ["bf16", "e4m3"])
def test_exact_sums_are_the_same_under_both_numerics(kind: str, numerics: Numerics) -> None:
    form = Form(16, "f32", kind, kind)
    a, b, d = integers(form)
    got = form.run(bits_of(a, kind), bits_of(b, kind), bits_of(d, "f32"), True, numerics)
    np.testing.assert_array_equal(got, bits_of(exact(form, a, b, d, True), "f32"))


def test_integers_stay_at_the_end_or_wrap() -> None:
    a, b = np.full((64, 32), 127), np.full((16, 32), 127)
    d = np.full((64, 16), 2**31 - 5, np.int32)
    for suffix, wanted in ((".satfinite", 2**31 - 1), ("", 2**31 - 5 + 2 * 32 * 127 * 127 - 2**32)):
        got = Form(16, "s32", "s8", "s8", suffix=suffix).run(bits_of(a, "s8"), bits_of(b, "s8"), d, True)
        assert (got == wanted).all()


@pytest.mark.parametrize(
    ("form", "said"),
    [
        (Form(12, "f32", "f16", "f16"), "m64n12k16"),
        (Form(40, "s32", "s8", "s8"), "m64n40k32"),
        (Form(8, "f32", "f16", "bf16"), "f32.f16.bf16"),
        (Form(8, "f16", "bf16", "bf16"), "f16.bf16.bf16"),
        (Form(8, "f32", "f16", "f16", suffix=".satfinite"), "satfinite"),
        (Form(8, "f32", "f16", "f16", signs=(2, 1)), "2"),
    ],
    ids=str,
)
def test_forms_that_do_not_exist(form: Form, said: str) -> None:
    with pytest.raises(errors.UnknownInstruction, match=said):
        Program(parse(form.program()).kernels["product"])


@pytest.mark.parametrize("completion", MODES)
def test_the_fence_lets_four_warps_meet(completion: str) -> None:
    """On an H200 even rows that are 100 us late are right. PTX does not promise it; the default level allows it."""
    text = (HERE / "warpgroup.ptx").read_text().replace("bar.sync 1, 128;", "")
    out, found = run("warpgroup", text, completion, level=errors.Level.FAULT)
    np.testing.assert_array_equal(out, PROGRAMS["warpgroup"].expected)
    assert not found
    with pytest.raises(errors.DataRace, match=r"wgmma\.mma_async reads shared memory"):
        run("warpgroup", text, completion, level=errors.Level.FORMAL)


@pytest.mark.parametrize("completion", MODES)
def test_a_wait_releases_what_it_waited_for_at_every_level(completion: str) -> None:
    """Level `pedantic` asks for tcgen05.fence after a tcgen05.wait; wgmma.wait_group needs none."""
    out, found = run("warpgroup", (HERE / "warpgroup.ptx").read_text(), completion, level=errors.Level.PEDANTIC)
    np.testing.assert_array_equal(out, PROGRAMS["warpgroup"].expected)
    assert not found


def test_a_warp_that_does_not_come_to_the_fence() -> None:
    text = (HERE / "warpgroup.ptx").read_text()
    text = text.replace(
        "    wgmma.fence.sync.aligned;", "    setp.ge.u32 %p8, %r1, 96; @%p8 ret; wgmma.fence.sync.aligned;", 1
    )
    with pytest.raises(errors.Deadlock, match=r"wgmma\.fence of warps 0 to 3 of CTA \(0,0,0\): 96 of 128 threads"):
        run("warpgroup", text, "lazy")


SECOND = "    wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%f16"


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize(
    ("instead", "error", "said"),
    [
        ("@%p8 bra PAST; SECOND PAST:", errors.BarrierError, r"warp 3 of CTA \(0,0,0\) ends without wgmma"),
        ("@%p8 bra OWN; SECOND bra PAST; OWN: SECOND PAST:", errors.BarrierError, "another of its four warps executes"),
        ("setp.lt.u32 %p4, %r1, 5; SECOND", errors.DescriptorError, "scale-d differs between lanes"),
    ],
)
def test_four_warps_execute_the_same(instead: str, error: type[Exception], said: str, completion: str) -> None:
    text = (HERE / "warpgroup.ptx").read_text()
    second = next(line for line in text.splitlines() if line.startswith(SECOND)).partition("//")[0]
    assert text.count(second) == 1
    broken = text.replace(second, "setp.ge.u32 %p8, %r1, 96; " + instead.replace("SECOND", second))
    with pytest.raises(error, match=said):
        run("warpgroup", broken, completion)
