"""Correct programs have no findings in any completion mode. Broken twins are reported, with line, warp and reason."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from ptx_launch import launch

from emulator import errors
from tests.emulator.twins import HERE, LAUNCH_PAIRS, PROGRAMS, TWINS, Twin, export, line_of

MODES = ("eager", "lazy", "random")


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


def test_the_suite_for_other_tools(tmp_path: Path) -> None:
    """Each file of the suite has its launch, and a twin the line of the expected report."""
    export(tmp_path)
    index = json.loads((tmp_path / "index.json").read_text())
    assert len(index) == len(PROGRAMS) + len(TWINS) + 2 * len(LAUNCH_PAIRS)
    for each in index:
        if "arguments" in each:
            assert f'"{each["arguments"][0]}", "' in (tmp_path / each["file"]).read_text()
            continue
        text = (tmp_path / each["file"]).read_text()
        assert all((tmp_path / name).is_file() for name in (*each["inputs"], each["expected"]))
        if "line" in each:
            assert text.splitlines()[each["line"] - 1].endswith(f"// expect: {' or '.join(each['expect'])}")
