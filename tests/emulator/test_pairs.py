"""Correct programs have no findings in any completion mode. Broken twins are reported, with line, warp and reason."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from ptx_launch import launch

from emulator import errors

HERE = Path(__file__).parent / "pairs"
MODES = ("eager", "lazy", "random")
RNG = np.random.default_rng(0)
A, B = RNG.integers(-4, 5, (128, 16)), RNG.integers(-4, 5, (32, 16))
TALL = RNG.integers(-4, 5, (256, 16))
WORDS = np.arange(768, dtype=np.uint32) * 7


def bf16(values: np.ndarray) -> np.ndarray:
    """Return integers that bf16 represents exactly, as its bits."""
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def core_matrices(values: np.ndarray) -> np.ndarray:
    """Rearrange [rows, k] into 8x8 core matrices: [rows / 8, k / 8, 8, 8]."""
    rows, k = values.shape
    return np.ascontiguousarray(bf16(values).reshape(rows // 8, 8, k // 8, 8).transpose(0, 2, 1, 3))


@dataclass(frozen=True)
class Program:
    """A correct program: its threads, its inputs, the expected value of its last argument, the CTAs of its cluster."""

    threads: int
    inputs: tuple[np.ndarray, ...]
    expected: np.ndarray
    ctas: int = 1


def staged_result() -> np.ndarray:
    first = (A @ B.T).astype(np.float32)[:, :16]
    return (first @ B.T.astype(np.float32))[:, :16]


def chained_result() -> np.ndarray:
    return ((A[:64] @ B.T)[:, :16] @ B[::-1].T).astype(np.float32)


PROGRAMS = {
    "gemm": Program(192, (core_matrices(A), core_matrices(B)), (A @ B.T).astype(np.float32)),
    "staged": Program(160, (bf16(A), bf16(B)), staged_result()),
    "warpgroup": Program(160, (core_matrices(A[:64]), core_matrices(B), core_matrices(B[::-1])), chained_result()),
    "ring": Program(96, (WORDS,), WORDS + 1),
    "exchange": Program(160, (WORDS[:128].copy(),), WORDS[127::-1].copy()),
    "elected": Program(64, (WORDS[:192].copy(),), WORDS[:192].reshape(-1, 2)[:, ::-1].reshape(-1) + 1),
    "elected_tensor": Program(160, (WORDS[:32].copy(),), WORDS[:32].copy()),
    "pair": Program(192, (core_matrices(TALL), core_matrices(B)), (TALL @ B.T).astype(np.float32), 2),
    "send": Program(32, (WORDS[:64].copy(),), 4 * WORDS[:64].reshape(2, 32)[::-1], 2),
    "multicast": Program(64, (WORDS[:384].copy(),), np.stack([WORDS[:384], WORDS[:384] + 1]), 2),
}


def run(
    name: str,
    text: str,
    completion: str,
    seed: int = 0,
    level: errors.Level = errors.Level.FORMAL,
    diagnostics: str = "stop",
) -> tuple[np.ndarray, list[errors.Fault]]:
    """Run a program and return its output and the findings that did not stop it."""
    program, found = PROGRAMS[name], list[errors.Fault]()
    out = np.full_like(program.expected, 77)
    grid, block = (program.ctas, 1, 1), (program.threads, 1, 1)
    options = {"completion": completion, "seed": seed, "level": level, "diagnostics": diagnostics, "findings": found}
    launch(text, (*program.inputs, out), grid=grid, block=block, cluster=grid, **options)
    return out, found


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_good(name: str, completion: str) -> None:
    out, found = run(name, (HERE / f"{name}.ptx").read_text(), completion, seed=3)
    assert not found
    np.testing.assert_array_equal(out, PROGRAMS[name].expected)


@dataclass(frozen=True)
class Twin:
    """A program with one line changed, and the required report: see twins.toml."""

    name: str
    program: str
    line: str
    error: str
    at: str = ""
    says: tuple[str, ...] = ()
    instead: str = ""
    level: str = "fault"
    then: str = ""

    def text(self) -> str:
        lines = (HERE / f"{self.program}.ptx").read_text().splitlines()
        lines[line_of(self.program, self.line) - 1] = self.instead
        return "\n".join(lines)

    def wanted(self) -> tuple[str, ...]:
        """Return `says` with marks replaced by their PTX lines."""

        def numbered(found: re.Match[str]) -> str:
            return f"PTX line {line_of(self.program, found[1])}"

        return tuple(re.sub(r"@([a-z0-9 ]+)", numbered, words) for words in self.says)


def line_of(program: str, mark: str) -> int:
    lines = (HERE / f"{program}.ptx").read_text().splitlines()
    (found,) = [i for i, line in enumerate(lines, 1) if line.endswith(f"// @{mark}")]
    return found


TWINS = tuple(Twin(**entry) for entry in tomllib.loads((HERE / "twins.toml").read_text())["twin"])


def shown_by(error: BaseException) -> tuple[str, ...]:
    """Yield patterns that any report of this class matches: line and warp, and for a race both parties and the fix."""
    if isinstance(error, errors.Deadlock):
        return (r"\n  warp \d of CTA \(\d,0,0\): (PTX line \d+: |has ended)",)
    both = r"at  +PTX line \d+: .*by  +warp \d+ of CTA .*"
    if isinstance(error, errors.DataRace):
        return (both + r"missing  +.*(warp|PTX line \d+)", r"(PTX line \d+.*){2}")
    return (both,)


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("twin", [t for t in TWINS if t.level == "formal"], ids=lambda t: t.name)
def test_what_is_formal_is_listed_by_default(twin: Twin, completion: str) -> None:
    kinds = tuple(getattr(errors, name) for name in twin.error.split())
    try:
        _, found = run(twin.program, twin.text(), completion, level=errors.Level.FAULT)
    except errors.EmulatorError as error:  # a consequence of it, later
        assert type(error).__name__ in twin.then.split()
        return
    assert {fault.level for fault in found} == {errors.Level.FORMAL}
    assert all(isinstance(fault, kinds) for fault in found)


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("twin", TWINS, ids=lambda t: t.name)
def test_broken(twin: Twin, completion: str) -> None:
    with pytest.raises(tuple(getattr(errors, name) for name in twin.error.split())) as caught:
        run(twin.program, twin.text(), completion, level=errors.Level[twin.level.upper()])
    report = str(caught.value)
    for shown in shown_by(caught.value):
        assert re.search(shown, report, re.DOTALL), report
    if twin.at:
        assert caught.value.line == line_of(twin.program, twin.at), report
    for words in twin.wanted():
        assert words in report, report


UNORDERED = {
    "no barrier between store and load": r"a barrier that warp \d of CTA .* arrives on after PTX line {store} and",
    "load without the wait for the commit": r"a barrier that tcgen05.mma of PTX line {mma} completes and",
    "a result is sent before it is there": r"a barrier that warp 1 of CTA .* arrives on after PTX line {give} and",
}


@pytest.mark.parametrize("level", [errors.Level.FAULT, errors.Level.FORMAL])
@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("name", UNORDERED)
def test_a_read_that_came_too_early_names_the_writer(name: str, completion: str, level: errors.Level) -> None:
    (twin,) = (twin for twin in TWINS if twin.name == name)
    with pytest.raises((errors.UnwrittenRead, errors.DataRace)) as caught:
        run(twin.program, twin.text(), completion, level=level)
    report, fault = str(caught.value), caught.value
    missing = UNORDERED[name].split("{")[1].split("}")[0]
    line = line_of(twin.program, missing)
    assert re.search(UNORDERED[name].replace("{" + missing + "}", str(line)), fault.missing), report
    if isinstance(fault, errors.UnwrittenRead):
        assert "nothing had written yet" in report and "written later at" in report


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("mark", ["arrive summed", "wait summed"])
def test_a_relaxed_arrival_or_wait_hands_nothing_over_where_that_is_asked(mark: str, completion: str) -> None:
    lines = (HERE / "ring.ptx").read_text().splitlines()
    at = line_of("ring", mark) - 1
    lines[at] = re.sub(r"(arrive|wait\.parity)", r"\1.relaxed.cta", lines[at])
    out, found = run("ring", "\n".join(lines), completion, level=errors.Level.FAULT)
    np.testing.assert_array_equal(out, PROGRAMS["ring"].expected)
    assert not found
    with pytest.raises(errors.DataRace) as caught:
        run("ring", "\n".join(lines), completion, level=errors.Level.FORMAL)
    assert caught.value.line == line_of("ring", "send") and f"PTX line {line_of('ring', 'give')}:" in str(caught.value)
    out, found = run("ring", "\n".join(lines), completion, level=errors.Level.PEDANTIC, diagnostics="report")
    np.testing.assert_array_equal(out, PROGRAMS["ring"].expected)
    assert {fault.level for fault in found} == {errors.Level.FAULT}
