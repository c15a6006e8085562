"""`python -m lab.pages [BLOCK...]`: print the generated blocks of the pages, and write them where they belong.

A block is enclosed in `<!-- begin NAME, written by `COMMAND` -->` and `<!-- end NAME -->` in README or one page of
docs/. Without a name all blocks are written. tests/test_docs.py compares each block with what its data file gives.
"""

from __future__ import annotations

import csv
import json
import re
import sys
import tarfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import cache, partial
from itertools import groupby
from pathlib import Path
from typing import Any, Final

from emulator.clock.chips import names as chips
from emulator.coverage import families, read_forms
from emulator.coverage import markdown as coverage_table
from emulator.leniency import Leniency, Level
from lab import hopper, litmus, race
from lab import kernels as whole_launches

ROOT: Final = Path(__file__).resolve().parents[1]
DOCS: Final = ROOT / "docs"
DATA: Final = ROOT / "lab" / "data"
CHEATS: Final = ROOT / "tests" / "harness" / "cheats" / "cheats.toml"
TWINS: Final = ROOT / "tests/emulator/pairs/twins.toml"
LAUNCHES: Final = TWINS.with_name("launches.cu")
BUGS: Final = ROOT / "lab" / "bugs" / "bugs.toml"
FINDS: Final = ROOT / "tests" / "emulator" / "finds.toml"
REPORT: Final = ROOT / "results" / "sample" / "silicon-h200" / "report.md"
ON_H200: Final = REPORT.parent / "kernel"
RECORDS: Final = REPORT.parent / "records.tar.xz"
PEERS: Final = {
    "torch's scaled_dot_product_attention": "torch",
    "FlashAttention-4": "FlashAttention-4",
    "FlexAttention": "FlexAttention",
    "FlashMLA": "FlashMLA",
}
DECODES: Final = {
    "serve-128h-b2-csa-v4": "DeepSeek-V4 decode, CSA layer, 128 heads, 2 sequences",
    "serve-128h-b64-csa-v4": "the same, 64 sequences",
    "serve-128h-b64-hca-v4": "HCA layer, 64 sequences",
    "serve-128h-b64-t2-v32": "DeepSeek-V3.2 decode, 128 heads, 64 sequences of 2 tokens",
}
"""Rows of the front page's table of decode, with their titles."""
SUMMARY: Final = {"prefill-128h-csa": "DeepSeek-V4 prefill, CSA layer, 128 heads"}
"""The problems of README's table besides those with 4,096 keys, and their names there."""
OUTCOMES: Final = (
    "hangs",
    "ends with an error of the launch (700, 715, 716, 719), which names neither place nor cause",
    "gives wrong numbers, always or now and then, and no error",
    "gives the right numbers, 60 times of 60",
)
MARK: Final = re.compile(r"(<!-- begin ([\w-]+), written by `[^`]+` -->\n).*?(<!-- end \2 -->)", re.DOTALL)

Lines = Iterator[str]


def rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file; lines that begin with # are comments."""
    return parsed(path.read_text())


def parsed(text: str) -> list[dict[str, str]]:
    """Return the rows of CSV text; lines that begin with # are comments."""
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


def toml(path: Path) -> dict[str, Any]:
    """Return the contents of a TOML file."""
    return tomllib.loads(path.read_text())


def markdown(head: tuple[str, ...], body: list[tuple[str, ...]]) -> Lines:
    """Yield a table."""
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    yield from (f"| {' | '.join(row)} |" for row in body)


def survey() -> Lines:
    """Yield the third-party programs that were run: a table per group, then the reasons why programs do not agree."""
    for group, named in groupby(toml(DATA / "survey.toml")["set"], key=lambda each: each["group"]):
        sets, names = list(named), ("set", "version", "date", "cases", "agree", "fault")
        yield f"### {group}\n"
        yield from markdown(names, [tuple(_unbroken(str(each[name])) for name in names) for each in sets])
        yield ""
        yield from (f"- {each['set']}: {each['rest']}." for each in sets if each["rest"])
        yield ""


def _unbroken(text: str) -> str:
    """Keep a date on one line of a narrow column, by hyphens that do not break."""
    return re.sub(r"^(\d+)-(\d+)-(\d+)$", "\\1\N{NON-BREAKING HYPHEN}\\2\N{NON-BREAKING HYPHEN}\\3", text)


def found() -> Lines:
    """Yield the faults that were found in them."""
    yield from markdown(
        ("program", "fault"), [(each["program"], each["fault"]) for each in toml(DATA / "survey.toml")["found"]]
    )


def predicted() -> Lines:
    """Yield the predicted time of each shape."""
    known = rows(DATA / "predicted.csv")
    yield from markdown(tuple(known[0]), [tuple(row.values()) for row in known])


def peers() -> Lines:
    """Yield our kernel's predicted times and those of others' kernels."""
    names = ("problem", "peer", "ours: cycles", "TFLOP/s", "peer: cycles", "TFLOP/s", "ratio")
    yield from markdown(names, [tuple(row.values()) for row in rows(DATA / "peers.csv")])


def whole(file: str) -> Lines:
    """Yield a CSV file of lab/data as a table."""
    known = rows(DATA / file)
    yield from markdown(tuple(known[0]), [tuple(row.values()) for row in known])


def clock(chip: str) -> Lines:
    """Yield the parameters of a chip's clock, each with how it is known and from what."""
    for name, figure in toml(ROOT / "emulator" / "clock" / f"{chip}.toml").items():
        if isinstance(figure, dict):
            also = f". Others: {figure['also']}" if "also" in figure else ""
            yield f"- `{name}` = {_value(figure['value'])}, *{figure['how']}*: {figure['source']}{also}"


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_value(part)}" for key, part in value.items())
    return str(value)


def clock_errors() -> Lines:
    """Yield the clock's mean error by class of figures, on each chip that it was compared with."""
    compared = ("b200", "b300", "h200")
    body = list[tuple[str, ...]]()
    for name, known in toml(ROOT / "emulator/clock/errors.toml").items():
        body.append((name, *(f"{known[chip]['error']:.0%}" if chip in known else "-" for chip in compared)))
    yield from markdown(("class", *(chip.upper() for chip in compared)), body)


def whole_kernels() -> Lines:
    """Yield the clock's errors for whole kernels."""
    head = ("set", *(name for name, _ in whole_launches.HEAD))
    yield from markdown(head, list(whole_launches.figures([*whole_launches.known(), *whole_launches.on_h200()])))


def ladder() -> Lines:
    """Yield the measured and predicted times of ThunderKittens' ladder, in milliseconds."""
    points = [each for each in whole_launches.known() if each.name == "ThunderKittens' ladder"]
    head = ("level", *(str(int(each.point.split()[1])) for each in points))
    measured = ("measured", *(f"{each.measured_us / 1e3:.3g}" for each in points))
    yield from markdown(head, [measured, ("predicted", *(f"{each.predicted_us / 1e3:.3g}" for each in points))])


def silicon_tests() -> Lines:
    """Yield the number of tests in which an H200 and the emulator agree."""
    counts = re.findall(r"^\| (test_\w+) \| (\d+) \| (\d+) \|", REPORT.read_text(), re.MULTILINE)
    agree, differ = (sum(int(row[column]) for row in counts) for column in (1, 2))
    yield f"{agree:,} tests agree, {differ:,} differ."


def silicon_outcomes() -> Lines:
    """Yield the outcomes of the broken programs on an H200."""
    seen = re.findall(r"^\| [^|]+ \| \w+ \| [^|]+ \| fault \| ([^|]+) \|$", REPORT.read_text(), re.MULTILINE)
    counts = Counter(map(outcome, seen))
    yield from markdown(("what it does", "programs"), [(what, str(counts[what])) for what in OUTCOMES])


def outcome(here: str) -> str:
    """Return the outcome of a broken program on a GPU, from the report's words."""
    if "no end" in here:
        return OUTCOMES[0]
    if here.startswith("error"):
        return OUTCOMES[1]
    return OUTCOMES[2] if "wrong" in here else OUTCOMES[3]


def finding(error: str) -> Lines:
    """Yield the faults that are reported under an error class."""
    yield from (f"- {each['when']}" for each in toml(FINDS)["reported"] if each["error"] == error)


def level(name: str) -> Lines:
    """Yield the checks below the level `fault`."""
    for rule in Leniency:
        if rule.level is Level[name.upper()]:
            reason = rule.reason
            yield f"- **{reason.check}.** {reason.because} *Evidence: {', '.join(reason.evidence)}.*"


def cheats() -> Lines:
    """Yield a row for each change that cheats."""
    body: list[tuple[str, ...]] = [
        (each["name"], each["does"], each["verdict"], each["stopped"], each.get("found", ""))
        for each in toml(CHEATS)["cheat"]
    ]
    return markdown(("cheat", "what the change does", "verdict", "what stops it", "found by"), body)


def h200_verdicts() -> Lines:
    """Yield the verdicts of the milestones on an H200, and the elements that differ from the emulator's."""
    body: list[tuple[str, ...]] = []
    records = [json.loads(text) for name, text in sorted(archived().items()) if name.endswith("/record.json")]
    compared = parsed(archived()["kernel/bits.csv"])
    for record in records:
        counts = [[each["outcome"] == "passed" for each in record["cases"]], [x["refused"] for x in record["mutants"]]]
        numbers = (str(number) for each in counts for number in (len(each), sum(each)))
        body.append((record["milestone"], record["verdict"], *numbers))
    yield from markdown(("milestone", "verdict", "tests", "passed", "negative controls", "rejected"), body)
    different = sum(int(row["different"]) for row in compared)
    cases, elements = (
        len({(row["milestone"], row["case"]) for row in compared}),
        sum(int(row["elements"]) for row in compared),
    )
    yield from (
        "",
        f'Bits of O, U, m and lse under `numerics="tc"`: {different} of {elements:,} elements differ, {cases} cases.',
    )


@cache
def archived() -> dict[str, str]:
    """Return the files of the archive of records, by name."""
    with tarfile.open(RECORDS) as archive:
        streams = ((name, archive.extractfile(name)) for name in archive.getnames())
        return {name: stream.read().decode() for name, stream in streams if stream is not None}


def measured() -> dict[str, dict[str, dict[str, Any]]]:
    """Return the times that were measured on a Hopper GPU with L2 cold, by problem and kernel."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    of_run = json.loads(archived()["kernel/measured.json"])
    for each in (each for each in of_run if each["times"] and each["times"]["cold"]):
        times = each["times"]
        found.setdefault(each["case"], {})[each["what"]] = {
            "us": f"{1e6 * times['median']:.2f}",
            "flops": each["flops"],
            "tflops": f"{each['flops'] / times['median'] / 1e12:.1f}",
            "sm_mhz": f"{times['sm_mhz']:.0f}",
        }
    for row in rows(ON_H200 / "flashmla.csv"):
        if row["problem"] in found:
            found[row["problem"]]["FlashMLA"] = row
    return found


def h200_speed() -> Lines:
    """Yield the measured times of the kernel, with the clock's predictions and those of peers."""
    clocked = {row["problem"]: row for row in rows(ON_H200 / "predicted.csv")}
    body: list[tuple[str, ...]] = []
    for problem, kernels in measured().items():
        row = kernels["this kernel"]
        peers = [kernels[name]["us"] if name in kernels else "" for name in PEERS]
        ratio = f"{min(map(float, filter(None, peers))) / float(row['us']):.2f}" if any(peers) else ""
        foreseen = clocked[problem]
        times = row["us"], foreseen["predicted us"], foreseen["error"]
        body.append((problem, *times, row["tflops"], row["sm_mhz"], *peers, ratio))
    named = (f"{name}, us" for name in PEERS.values())
    yield from markdown(("problem", "us", "predicted, us", "error", "TFLOP/s", "MHz", *named, "ratio"), body)
    errors = [float(each["error"].rstrip("%")) for each in clocked.values()]
    mean, short = sum(map(abs, errors)) / len(errors), sum(error < 0 for error in errors)
    yield from (
        "",
        f"Predicted times of {len(errors)} problems have a mean error of {mean:.1f}%; {short} are too short.",
    )
    ratios = sorted(float(row[-1]) for row in body if row[-1] and "keys" in row[0])
    yield f"In {len(ratios)} rows of plain attention the ratio is {ratios[0]:.2f} to {ratios[-1]:.2f}."


def h200_decode() -> Lines:
    """Yield the bytes of decode, and the least time of a launch that does nothing but copy its keys."""
    least: dict[tuple[int, int], float] = {}
    for row in rows(DATA / "h200" / "decode_floor.csv"):
        size = int(row["sequences"]), int(row["keys"])
        least[size] = min(float(row["us"]), least.get(size, float("inf")))
    body: list[tuple[str, ...]] = []
    for problem, kernels in measured().items():
        if not (named := re.fullmatch(r"decode-(\d+)h-b(\d+)-t1-\w+", problem)):
            continue
        heads, batch = map(int, named.groups())
        ours, row_bytes = kernels["this kernel"], 2 * 512
        us, keys = float(ours["us"]), round(ours["flops"] / (4 * 512 * heads * batch))
        moved, alone = batch * (keys + 2 * heads) * row_bytes, least[batch, keys]
        cells = f"{us:.2f}", f"{moved / 1e6:.0f}", f"{moved / us / 1e6:.1f}", f"{alone:.2f}", f"{alone / us:.2f}"
        body.append((problem, *cells))
    yield from markdown(("problem", "us", "MB", "TB/s", "its keys alone, us", "ratio"), body)


def h200_decode_rows() -> Lines:
    """Yield times of FlashMLA's kernels, of this kernel, predicted and before a change, too, with each ratio's goal."""
    from lab.decode_rows import FLASHMLA

    body: list[tuple[str, ...]] = []
    for row in rows(ON_H200 / "decode.csv"):
        problem, before, ours, theirs, predicted = row.values()
        body.append((problem, before, ours, predicted, theirs, *judged(problem, FLASHMLA, float(theirs) / float(ours))))
    times = "before, us", "this kernel, us", "predicted, us", "FlashMLA, us"
    yield from markdown(("problem", *times, "ratio", "goal", ""), body)


def judged(problem: str, other: str, ratio: float) -> tuple[str, str, str]:
    """Return the ratio of another time to a problem's, the goal of it, and whether it was reached."""
    from lab.decode_rows import GOALS

    goals = [goal for goal in GOALS if goal.other == other and fnmatchcase(problem, goal.shapes)]
    verdict = "missed" if any(ratio < goal.ratio for goal in goals) else "reached" if goals else ""
    return f"{ratio:.2f}", "".join(f"{goal.ratio:.2f}" for goal in goals), verdict


def h200_decode_summary() -> Lines:
    """Yield the measured times of decode from FP8 caches, beside those of FlashMLA."""
    times = {row["problem"]: (row["now us"], row["FlashMLA us"]) for row in rows(ON_H200 / "decode.csv")}
    body: list[tuple[str, ...]] = [(title, *times[problem]) for problem, title in DECODES.items()]
    yield from markdown(("microseconds, measured", "this kernel", "FlashMLA"), body)


def h200_summary() -> Lines:
    """Yield the measured TFLOP/s of a few problems, with those of peers."""
    body: list[tuple[str, ...]] = []
    for problem, kernels in measured().items():
        if problem in SUMMARY or "4,096 keys" in problem:
            rates = (kernels[name]["tflops"] if name in kernels else "" for name in ("this kernel", *PEERS))
            body.append((SUMMARY.get(problem, problem), *rates))
    yield from markdown(("TFLOP/s, measured", "this kernel", *PEERS.values()), body)


def unchanged(head: tuple[str, ...], path: Path) -> Lines:
    """Yield a table of the rows of a CSV file under another head."""
    return markdown(head, [tuple(row.values()) for row in rows(path)])


def h200_caches() -> Lines:
    """Yield the measured times of decode over caches of each layout, with the goals of their ratios."""
    times = {row["problem"]: float(row["now us"]) for row in rows(ON_H200 / "caches.csv")}
    body: list[tuple[str, ...]] = []
    for name in dict.fromkeys(problem.rpartition("-")[0] for problem in times):
        bf16, v4, v41 = (times[f"{name}-{layout}"] for layout in ("bf16", "v4", "v41"))
        of_v4, of_v41 = judged(f"{name}-v4", "bf16", bf16 / v4), judged(f"{name}-v41", "v4", v4 / v41)
        body.append((name, *(f"{us:.2f}" for us in (bf16, v4, v41)), *of_v4, *of_v41))
    ratios = "bf16 / V4", "goal", "", "V4 / V4.1", "goal", ""
    yield from markdown(("problem", "bf16, us", "V4, us", "V4.1, us", *ratios), body)


def h200_counters() -> Lines:
    """Yield counters of Nsight Compute with the clock's predictions."""
    found = rows(ON_H200 / "counters.csv")
    body = [tuple({**row, "cycles": f"{int(row['cycles']):,}"}.values()) for row in found]
    yield from markdown(tuple(found[0]), body)


def h200_failures() -> Lines:
    """Yield the failures that were provoked on an H200, and the answers of the harness."""
    head = ("failure", "promised", "seen", "then")
    return unchanged(head, ON_H200 / "failures.csv")


def bugs() -> Lines:
    """Yield a row for each published bug of the corpus."""
    body: list[tuple[str, ...]] = [
        (", ".join(each["reports"]), each["what"], each["level"], each["seen"], each["tools"])
        for each in toml(BUGS)["bug"]
    ]
    return markdown(("report", "bug", "level", "on GPUs", "compute-sanitizer"), body)


def twins() -> Lines:
    """Yield a row for each kind of broken twin."""
    every = toml(TWINS)["twin"]
    body = list[tuple[str, ...]]()
    for kind in dict.fromkeys(twin["kind"] for twin in every):
        those = [twin for twin in every if twin["kind"] == kind]
        programs = sorted({twin["program"] for twin in those})
        classes = sorted({name for twin in those for name in twin["error"].split()})
        body.append((kind, ", ".join(programs), str(len(those)), ", ".join(f"`{name}`" for name in classes)))
    launches = re.findall(r'\{"([^"]+)", "[^"]+", "(\w+)", \[', LAUNCHES.read_text())
    for kind in dict.fromkeys(kind for kind, _ in launches):
        classes = sorted(name for other, name in launches if other == kind)
        shown = ", ".join(f"`{name}`" for name in dict.fromkeys(classes))
        body.append((f"{kind}, by CUDA C++", "launches", str(len(classes)), shown))
    return markdown(("kind", "right programs", "hazardous twins", "expected reports"), body)


def flashmla() -> Lines:
    """Yield the counts of FlashMLA's own tests."""
    head = ("set", "on", "queries", "cases", "timed", "KV tiles at most", "larger", "run", "passed")
    return unchanged(head, DATA / "flashmla.csv")


def detections() -> Lines:
    """Yield, by milestone, in how many cases the comparison sees an error."""
    table, errors = (
        pivot("detections.csv", "error", "milestone"),
        [row["error"] for row in rows(DATA / "detections.csv")],
    )
    head = tuple(dict.fromkeys(errors))
    body: list[tuple[str, ...]] = []
    for name, own in table.items():
        cells = (f"{own[error]['seen']} of {own[error]['cases']}" if error in own else "-" for error in head)
        thinnest = own[head[0]]["thinnest"] if head[0] in own else "-"
        body.append((name, *cells, thinnest))
    yield from markdown(("milestone", *head, "thinnest negative control"), body)


def unseen() -> Lines:
    """Yield why errors are not seen, over all milestones."""
    body: list[tuple[str, ...]] = []
    for error, own in pivot("detections.csv", "milestone", "error").items():
        counts = ("cases", "seen", "no trace", "peaked", "other")
        body.append((error, *(str(sum(int(row[name]) for row in own.values())) for name in counts)))
    yield from markdown(("error", "cases", "seen", "no bit differs", "peaked", "other"), body)


def pivot(file: str, column: str, key: str) -> dict[str, dict[str, dict[str, str]]]:
    """Return the rows of a CSV file of lab/data by the values of two columns, those of `key` first."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    for row in rows(DATA / file):
        found.setdefault(row[key], {})[row[column]] = row
    return found


def _blocks() -> dict[str, Callable[[], Lines]]:
    found_errors = dict.fromkeys(each["error"] for each in toml(FINDS)["reported"])
    return {
        "survey": survey,
        "bugs": bugs,
        "cheats": cheats,
        "found": found,
        "predicted": predicted,
        "peers": peers,
        "goals": partial(whole, "goals.csv"),
        "flashmla": flashmla,
        "detections": detections,
        "unseen": unseen,
        "flashmla-prefill": partial(whole, "flashmla_prefill.csv"),
        "silicon-tests": silicon_tests,
        "silicon-outcomes": silicon_outcomes,
        "silicon-kernels": partial(whole, "silicon_kernels.csv"),
        "silicon-triton": partial(whole, "silicon_triton.csv"),
        "h200-verdicts": h200_verdicts,
        "h200-speed": h200_speed,
        "h200-summary": h200_summary,
        "h200-decode": h200_decode,
        "h200-caches": h200_caches,
        "h200-host": partial(whole, "h200/host_time.csv"),
        "h200-decode-rows": h200_decode_rows,
        "h200-decode-summary": h200_decode_summary,
        "h200-counters": h200_counters,
        "h200-failures": h200_failures,
        "silicon-times": lambda: hopper.table(hopper.rows()),
        "clock-errors": clock_errors,
        "whole-kernels": whole_kernels,
        "ladder": ladder,
        "race": race.race,
        "race-ordered": race.ordered,
        "litmus": litmus.table,
        "twins": twins,
        "coverage": lambda: iter(coverage_table(families(read_forms())).splitlines()[2:]),
        **{f"clock-{chip}": partial(clock, chip) for chip in chips()},
        **{f"finding-{error}": partial(finding, error) for error in found_errors},
        **{f"level-{name}": partial(level, name) for name in ("formal", "pedantic")},
    }


BLOCKS: Final = _blocks()
"""Functions that make the lines of each block, by its name."""


def block(name: str) -> str:
    """Return the text of a block."""
    return "\n".join(BLOCKS[name]()).strip() + "\n"


def written(page: str, names: set[str]) -> str:
    """Return the text of a page with the named blocks brought up to date."""
    return MARK.sub(lambda m: f"{m[1]}{block(m[2])}{m[3]}" if m[2] in names else m[0], page)


def main() -> int:
    """Write the blocks; return the exit code."""
    names = set(sys.argv[1:] or BLOCKS)
    if unknown := names - set(BLOCKS):
        print(f"no such block: {', '.join(sorted(unknown))}; there are {', '.join(sorted(BLOCKS))}", file=sys.stderr)
        return 2
    for name in sys.argv[1:]:
        print(block(name))
    for path in sorted([ROOT / "README.md", *DOCS.rglob("*.md")]):
        text = path.read_text()
        if (now := written(text, names)) != text:
            path.write_text(now)
            print(f"wrote {path.relative_to(ROOT)}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
