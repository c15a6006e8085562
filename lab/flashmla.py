"""`make flashmla-tests FLASHMLA=path`: run FlashMLA's own tests of sparse attention on the package `flash_mla` here.

The files of the checkout are used unmodified: each says what its cases are, and its test function judges one. Timed
cases are left out, because the files find kernels by FlashMLA's names. So are cases with more KV tiles than `--tiles`.
`--peak` multiplies the queries by a factor. Launches run on the emulated B200, with `--gpu` on this machine's GPU.
`--library` runs the prefill tests on FlashMLA's own kernel on a Hopper GPU, from `python -m lab.flashmla_gpu --build`.
As in the files' main blocks, torch may compute the reference in TF32.
`--write` replaces the counts of the same device, limit and factor in lab/data/flashmla.csv; `python -m
lab.pages flashmla` writes them into the how-to page. This needs PyPI's `triton`, which the files import and which is
not in requirements.lock.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import csv
import importlib
import io
import json
import operator
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from functools import partial
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from types import ModuleType
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
COUNTS: Final = ROOT / "lab" / "data" / "flashmla.csv"
HEAD: Final = ("set", "on", "queries", "cases", "timed", "tiles", "larger", "run", "pass")
TILE: Final = 64
"""Keys of a KV tile, and rows of a row tile."""
TILES: Final = 150
"""KV tiles of a case at most, by default."""


@dataclass(frozen=True)
class Suite:
    """A file of tests. test: its function, which takes a case. drawn: the function of `lib` that draws its tensors."""

    file: str
    test: str
    drawn: str
    cases: Callable[[ModuleType], list[Any]]

    def passes(self, module: ModuleType, case: Any) -> bool:
        """Return the verdict of the test function."""
        found = getattr(module, self.test)(case)
        return bool(getattr(found, "is_correct", found))


def decode_cases(module: ModuleType) -> list[Any]:
    """Return the cases of the decode tests."""
    return [case.to_test_param() for case in module.gen_testcase()]


def prefill_cases(module: ModuleType) -> list[Any]:
    """Return the cases of the prefill tests, which its main block assigns to names. Nothing else of that block runs."""
    assert module.__file__ is not None
    source = ast.parse(Path(module.__file__).read_text())
    main = next(each for each in source.body if isinstance(each, ast.If))
    assigned = [each for each in main.body if isinstance(each, ast.Assign)]
    wanted: list[ast.stmt] = [
        each for each in assigned if "case" in ast.unparse(each.targets[0]) and "fail" not in ast.unparse(each)
    ]
    names = dict(vars(module))
    exec(compile(ast.Module(wanted, []), module.__file__, "exec"), names)
    return list(names["testcases"])


SUITES: Final = (
    Suite("test_flash_mla_sparse_decoding", "test_flash_mla", "generate_testcase_for_decode", decode_cases),
    Suite("test_flash_mla_sparse_prefill", "run_test", "generate_testcase", prefill_cases),
)


def kv_tiles(case: Any) -> int:
    """Return the KV tiles of a case's launch, over all its row tiles."""
    tokens = case.s_q if case.decode is None else case.s_q * case.decode.b
    listed = case.topk + (0 if case.decode is None else case.decode.extra_topk or 0)
    return int(tokens * -(-case.h_q // TILE) * -(-listed // TILE))


def set_of(suite: Suite, case: Any) -> str:
    """Return the name of the set of a case."""
    return f"{suite.file}.py, d_qk {case.d_qk}"


@dataclass(frozen=True)
class Verdict:
    """The outcome of a case: passed, failed, timed or too large."""

    set: str
    outcome: str
    seconds: float = 0.0
    said: str = ""


def verdicts(
    tests: Path, part: int, parts: int, tiles: int, peak: int, only: str = "*", library: Path | None = None
) -> Iterator[Verdict]:
    """Run every `parts`-th case from number `part` on, in this process.

    only: a glob of the files' names. library: FlashMLA's own kernels, of the prefill.
    """
    import torch

    sys.path.insert(0, str(tests))
    lib = importlib.import_module("lib")
    torch.set_default_dtype(torch.bfloat16)
    torch.set_default_device("cuda:0")
    torch.set_float32_matmul_precision("high")
    suites = [suite for suite in SUITES if fnmatchcase(suite.file, only)]
    if library is not None:
        from lab.flashmla_gpu import Library, sparse_fwd

        suites = [suite for suite in suites if "prefill" in suite.file]
        lib.flash_mla.flash_mla_sparse_fwd = partial(sparse_fwd, Library(library))
    for suite in suites:
        setattr(lib, suite.drawn, multiplied(getattr(lib, suite.drawn), peak))
        module = importlib.import_module(suite.file)
        for number, case in enumerate(suite.cases(module)):
            if number % parts != part:
                continue
            name = set_of(suite, case)
            if case.num_runs > 0:
                yield Verdict(name, "timed")
            elif kv_tiles(case) > tiles:
                yield Verdict(name, "too large")
            else:
                case.seed = number
                yield verdict(suite, module, case, name)


def multiplied(draw: Callable[[Any], Any], peak: int) -> Callable[[Any], Any]:
    """Return a function that draws tensors as `draw` does, with queries times `peak`."""

    def drawn(case: Any) -> Any:
        made = draw(case)
        made.q *= peak
        return made

    return drawn


def verdict(suite: Suite, module: ModuleType, case: Any, name: str) -> Verdict:
    """Run a case. An error is a failure."""
    printed, start = io.StringIO(), time.perf_counter()
    with contextlib.redirect_stdout(printed):
        try:
            passed = suite.passes(module, case)
        except Exception:
            traceback.print_exc(file=printed)
            passed = False
    said = "" if passed else printed.getvalue()
    return Verdict(name, "passed" if passed else "failed", time.perf_counter() - start, said)


def run(
    tests: Path, jobs: int, tiles: int, peak: int, gpu: bool, only: str = "*", library: Path | None = None
) -> list[Verdict]:
    """Run all cases in `jobs` processes, and print each that fails. only, library: as of `verdicts`."""
    emulated = [] if gpu else ["-m", "emulator", "run", "--processes", "1"]
    command = [sys.executable, *emulated, __file__, str(tests.parent)]
    command += [] if library is None else ["--gpu", "--library", str(library.resolve())]
    command += ["--jobs", str(jobs), "--tiles", str(tiles), "--peak", str(peak), "--only", only, "--part"]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    }
    running = [
        subprocess.Popen([*command, str(part)], stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT)
        for part in range(jobs)
    ]
    with ThreadPoolExecutor(jobs) as readers:  # all at the same time: a process whose pipe nobody reads waits
        return list(chain.from_iterable(readers.map(read, running)))


def read(process: subprocess.Popen[str]) -> list[Verdict]:
    """Return the outcomes of a process of tests, and print them as they come."""
    assert process.stdout is not None
    found = []
    for line in process.stdout:
        ended = Verdict(**json.loads(line))
        found.append(ended)
        if ended.outcome in ("passed", "failed"):
            print(f"{ended.outcome} in {ended.seconds:.0f} s: {ended.set}\n{ended.said}", end="", flush=True)
    if process.wait():
        raise SystemExit(f"a process of tests ended with exit code {process.returncode}")
    return found


def table(found: list[Verdict], tiles: int, peak: int, on: str) -> list[dict[str, str]]:
    """Return the counts of each set. tiles: the limit of the run, beyond which cases are larger. on: the device."""
    lines = []
    for name in dict.fromkeys(each.set for each in found):
        own = [each.outcome for each in found if each.set == name]
        counts = {each: own.count(each) for each in ("timed", "too large", "passed", "failed")}
        ran = counts["passed"] + counts["failed"]
        values = (
            len(own),
            counts["timed"],
            "any" if tiles == sys.maxsize else tiles,
            counts["too large"],
            ran,
            counts["passed"],
        )
        lines.append(
            dict(zip(HEAD, (name, on, "as drawn" if peak == 1 else f"times {peak}", *map(str, values)), strict=True))
        )
    return lines


def write(lines: list[dict[str, str]]) -> None:
    """Write the counts of a run to COUNTS. They replace counts of the same device, limit and factor."""
    text = COUNTS.read_text().splitlines(keepends=True)
    comment = [line for line in text if line.startswith("#")]
    same = operator.itemgetter("set", "on", "queries", "tiles")
    replaced = {same(line) for line in lines}
    kept = [line for line in csv.DictReader(text[len(comment) :]) if same(line) not in replaced]
    table = io.StringIO("".join(comment))
    table.seek(0, io.SEEK_END)
    writer = csv.DictWriter(table, HEAD, lineterminator="\n")
    writer.writeheader()
    writer.writerows([*kept, *lines])
    COUNTS.write_text(table.getvalue())


def device(gpu: bool) -> str:
    """Return the name of the device that tests run on."""
    import torch

    return torch.cuda.get_device_name() if gpu else "emulated B200"


def arguments() -> argparse.Namespace:
    """Parse and check the command line. Invalid input exits with status 2."""
    parser = argparse.ArgumentParser(prog="python -m lab.flashmla", description=__doc__)
    parser.add_argument("checkout", type=Path, help="FlashMLA's repository")
    parser.add_argument(
        "--tiles",
        type=int,
        default=TILES,
        help="leave out cases with more KV tiles; 0 leaves out none (default: %(default)s)",
    )
    parser.add_argument("--peak", type=int, default=1, help="multiply the queries by this (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="number of processes (default: %(default)s)")
    parser.add_argument("--gpu", action="store_true", help="run on this machine's GPU, not on the emulated B200")
    parser.add_argument("--only", default="*", metavar="GLOB", help="files of tests (default: all)")
    parser.add_argument("--library", type=Path, help="with --gpu: FlashMLA's own kernels, by lab.flashmla_gpu --build")
    parser.add_argument("--write", action="store_true", help="write the counts to lab/data/flashmla.csv")
    parser.add_argument("--part", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    for suite in SUITES:
        if not (file := given.checkout / "tests" / f"{suite.file}.py").is_file():
            parser.error(f"{file} does not exist: name a checkout of FlashMLA that has its sparse tests")
    if find_spec("triton") is None:
        parser.error("FlashMLA's tests import triton, which is not installed: pip install triton")
    if min(given.tiles, given.peak - 1, given.jobs - 1) < 0:
        parser.error("--tiles must be at least 0, --peak and --jobs at least 1")
    if given.library is not None and not (given.gpu and given.library.is_file()):
        parser.error(f"--library {given.library} must be a file, and needs --gpu")
    given.tiles = given.tiles or sys.maxsize
    return given


def main() -> int:
    """Run the tests, print the counts, and return the exit code: 1 if a case failed."""
    given = arguments()
    tests = given.checkout.resolve() / "tests"
    if given.part is not None:
        for each in verdicts(tests, given.part, given.jobs, given.tiles, given.peak, given.only, given.library):
            print(json.dumps(asdict(each)), flush=True)
        return 0
    found = run(tests, given.jobs, given.tiles, given.peak, given.gpu, given.only, given.library)
    on = device(given.gpu) + ", FlashMLA's kernel" * (given.library is not None)
    lines = table(found, given.tiles, given.peak, on)
    print("\n".join(" | ".join(row[name] for name in HEAD) for row in [dict(zip(HEAD, HEAD, strict=True)), *lines]))
    if given.write:
        write(lines)
    print(f"{sum(each.seconds for each in found):.0f} s of tests in {given.jobs} processes")
    return int(any(each.outcome == "failed" for each in found))


if __name__ == "__main__":
    sys.exit(main())
