"""Run wrong versions of the kernel against the stages: `python -m lab.mutants`, or `make mutants`.

Each mutant is one edit of one line of kernel/. It is killed if a milestone that uses the line would not be accepted,
and is a hole otherwise, unless it compiles to the same code as the kernel in every configuration of the stages, or
equivalent.toml says why no input can tell it from the kernel. Results are in results/mutants, so that a run that was
stopped goes on; those that last are in kept.csv, in this folder, or in kept.h200.csv for the emulated H200, which
CUTE_DSL_ARCH=sm_90a chooses: kernel/sm90 is judged there, and kernel/device on both. The exit status is 0 if there is
no hole.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path

# CuTeDSL reads this when it is imported: without source locations it compiles in half the time, to the same code.
os.environ["CUTE_DSL_LINEINFO"] = os.environ["CUTE_EXPERIMENTAL_DSL_LINEINFO"] = "0"

from rich.console import Console
from rich.progress import Progress, TimeElapsedColumn

from harness.paths import RESULTS, ROOT
from lab.mutants import baseline, plan, pool, results, table, trial
from lab.mutants.operators import Mutant
from lab.mutants.results import Result
from lab.mutants.sources import ALWAYS, CHIP, COMPILED, CONFIGURATION, HOST, digest, generated, meaning, original

FOLDER = RESULTS / "mutants" / CHIP
PAGE = ROOT / "docs/reference/mutants.md"


def main() -> int:
    """Run the command line; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m lab.mutants", description=__doc__)
    parser.add_argument(
        "-j", type=int, default=os.cpu_count(), metavar="N", help="number of processes (default: one per core)"
    )
    parser.add_argument("--only", action="append", metavar="PATTERN", help="mutants by id or file, as in '*mma.py*'")
    parser.add_argument(
        "--milestone", action="append", default=[], metavar="ID", help="run this one alone; keeps what it kills"
    )
    parser.add_argument("--all", action="store_true", help="every mutant, not a sample of the less likely bugs")
    parser.add_argument("--list", action="store_true", help="print the mutants and run none")
    parser.add_argument("--show", metavar="ID", help="print a mutant as a diff, and its cases if they are known")
    parser.add_argument("--rerun-holes", action="store_true", help="run the holes again, and mutants without a result")
    parser.add_argument(
        "--rounds",
        type=int,
        default=len(plan.ROUNDS),
        choices=range(1, len(plan.ROUNDS) + 1),
        metavar="N",
        help="run N rounds of configurations: fewer than 3 leave suspects",
    )
    parser.add_argument("--equivalent", action="store_true", help="run the mutants that are listed as equivalent too")
    args = parser.parse_args()
    mutants = generated(args.all or bool(args.show))
    if args.only:
        mutants = [each for each in mutants if any(fnmatch(each.id, f"*{only}*") for only in args.only)]
    if args.list:
        for each in mutants:
            print(f"{each.id}  {each.path}:{each.line}")
        return 0
    if args.show:
        return show(mutants, args.show)
    return run(mutants, args)


def show(mutants: list[Mutant], wanted: str) -> int:
    """Print a mutant's diff."""
    for each in mutants:
        if each.id == wanted:
            print(f"{each.path}:{each.line} in {each.function}\n{each.diff(original(each.path))}")
            return 0
    print(f"no mutant {wanted!r}; --list prints them", file=sys.stderr)
    return 2


def run(mutants: list[Mutant], args: argparse.Namespace) -> int:
    """Run what has no result yet, and print what came of all."""
    from remote.device import Emulated

    Emulated()  # before CuTeDSL is imported: asks it to keep the PTX
    from lab.mutants.warming import warm

    warm()
    stages = digest("kernel", "stages")
    path, folder = FOLDER / "results.jsonl", FOLDER / "baseline" / "-".join((stages, *args.milestone))
    chosen = tuple(args.milestone)
    known = baseline.find(folder, args.j, lambda line: print(line, file=sys.stderr, flush=True), chosen)
    had, listed = results.load(path), {} if args.equivalent else results.equivalents()
    todo = [each for each in mutants if each.id not in listed]
    accepted = () if args.rerun_holes else ("hole",)
    todo = [each for each in todo if not done(each, had.get(each.id), stages, accepted)]
    todo.sort(key=lambda each: each.operator not in ALWAYS or each.path in HOST)
    print(f"{len(mutants)} mutants, {len(todo)} to run", file=sys.stderr, flush=True)
    for mutant, result in results_of(todo, known, folder, had, stages, args):
        result.function, result.stages = meaning(mutant.path, mutant.function), stages
        if not chosen or result.outcome == "killed":
            had[result.id] = result
            results.append(path, [result])
    results.keep(had[each.id] for each in generated(True) if done(each, had.get(each.id), stages, ()))
    had = {each.id: had[each.id] for each in mutants if done(each, had.get(each.id), stages, ("hole", "suspect"))}
    ends = Counter(had[each.id].outcome for each in mutants if each.id in had and each.id not in listed)
    ends.update(
        "beyond the emulator" if listed[each.id].limit else "equivalent" for each in mutants if each.id in listed
    )
    ends["not run"] = len(mutants) - ends.total()
    print(f"{len(mutants)} mutants: " + ", ".join(f"{count} {end}" for end, count in ends.items() if count))
    if not args.only and not args.all:
        table.update(PAGE, table.render(mutants, had, listed))
    return 1 if ends["hole"] + ends["suspect"] + ends["not run"] else 0


def done(mutant: Mutant, before: Result | None, stages: str, accepted: Sequence[str]) -> bool:
    """Return True if a result still counts: of a mutant that is no hole, or one `accepted` while nothing changed."""
    if before is None or before.function != meaning(mutant.path, mutant.function):
        return False
    return before.outcome in results.LASTING or (before.stages == stages and before.outcome in accepted)


def results_of(
    todo: list[Mutant],
    known: baseline.Baseline,
    folder: Path,
    had: Mapping[str, Result],
    stages: str,
    args: argparse.Namespace,
) -> Iterator[tuple[Mutant, Result]]:
    """Yield results as they come, round by round; survivors of an earlier run go on with the round that they reached.

    Shows progress on a terminal, and prints holes.
    """
    suspects = [each for each in had.values() if each.outcome == "suspect" and each.stages == stages]
    reached = {} if args.milestone else {each.id: each for each in suspects}
    killers = {each.id: each.case for each in had.values() if each.outcome == "killed"}
    console = Console(stderr=True)
    with Progress(
        *Progress.get_default_columns(), TimeElapsedColumn(), console=console, disable=not console.is_terminal
    ) as progress:
        for number in range(args.rounds):
            tasks = [
                task(each, known, folder, killers.get(each.id, ""), number, reached.get(each.id))
                for each in todo
                if (reached[each.id].rounds if each.id in reached else 0) == number
            ]
            bar = progress.add_task(f"round {number + 1}", total=len(tasks))
            for ended in pool.run(tasks, trial.run, args.j):
                result = result_of(ended, number)
                progress.advance(bar)
                if result.outcome == "hole":
                    progress.print(f"{'survives' if args.milestone else 'hole'}  {result.id}", highlight=False)
                reached[result.id] = result
                yield ended.task.mutant, result


def task(
    mutant: Mutant, known: baseline.Baseline, folder: Path, killer: str, number: int, before: Result | None
) -> trial.Task:
    """Return the task of a process in a round. before: the result of the round before, if there was one."""
    groups = plan.ordered(plan.using(mutant, known.cases), killer)
    rejects = mutant.path in (*HOST, *CONFIGURATION)
    tests = plan.using(mutant, known.tests) if rejects and number == 0 else []
    cases = [case for group in plan.in_round(number, groups) for case in group]
    affected = before.affected if before and number else []
    last = plan.is_last(number, groups)
    return trial.Task(mutant, sorted(tests, key=lambda each: each.seconds), cases, str(folder), last, affected)


def result_of(done: pool.Done, number: int) -> Result:
    """Return the result of a mutant's process in a round. Raises RuntimeError where this program itself failed."""
    last = done.task.last
    cases = [each["case"] for each in done.reports if "how" not in each and "case" in each]
    mutant = done.task.mutant
    result = Result(mutant.id, "hole" if last else "suspect", seconds=round(done.seconds, 2), cases=len(cases))
    end = next((each for each in done.reports if "how" in each), None)
    if error := next((each["error"] for each in done.reports if "error" in each), ""):
        raise RuntimeError(f"{mutant.id}: {error}")
    if end is None:
        result.outcome, result.how, result.case = "killed", done.end or "error", cases[-1] if cases else ""
    elif end["how"]:
        result.outcome, result.how, result.case, result.says = "killed", end["how"], end["case"], end["says"]
    else:
        result.rounds, result.affected = number + 1, end["affected"]
        result.says = f"launched by {', '.join(end['affected']) or 'no case'}"
        if last and not end["affected"] and mutant.path in COMPILED:
            result.outcome = "same code"
    return result


if __name__ == "__main__":
    sys.exit(main())
