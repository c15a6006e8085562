"""The command `resources`: registers, stack and spills of every kernel that a script launches."""

from __future__ import annotations

import argparse
import json
import runpy
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from ..bridge.elf import is_program
from ..bridge.result import LaunchResult
from ..errors import AssemblerError
from ..machine_code import Resources, assembler, resources
from ..modules import load
from .scripts import InvalidInput, add_script, new_file, prepare, write

OVER: Final = 3
LIMITS: Final = ("registers", "stack_bytes", "spill_store_bytes", "spill_load_bytes", "barriers", "instructions")
"""Limits of a budget: fields of `Resources`, and the number of machine instructions."""
LONGEST: Final = 60
Budget = Mapping[str, Mapping[str, int]]


def add_command(commands: Any) -> None:
    """Add this subcommand to the parser."""
    command = commands.add_parser(
        "resources",
        allow_abbrev=False,
        help="print registers, stack and spills of every kernel that a script launches",
        description="Run SCRIPT on the emulated device, assemble every kernel that it launched by NVIDIA's ptxas, and "
        f"print what the machine code needs. Exit code {OVER} means that a kernel is over its budget. Options come "
        "before SCRIPT.",
    )
    command.add_argument(
        "--budget",
        type=Path,
        metavar="FILE.toml",
        help="limits of kernels. A table [NAME] holds those of the kernels whose name matches NAME, in which * and ? "
        f"stand for any text: {', '.join(LIMITS)}",
    )
    command.add_argument(
        "--write-budget", type=new_file, metavar="FILE.toml", help="write what the kernels need as their budget"
    )
    command.add_argument("--report", type=new_file, metavar="FILE.json", help="write the table as JSON")
    add_script(command, "the chip (default: %(default)s)")
    command.set_defaults(do=_resources)


def _resources(options: argparse.Namespace) -> int:
    prepare(options.script, options.args)
    try:
        budget = {} if options.budget is None else read_budget(options.budget)
        _, version = assembler()
        found = needed(_launches(options.script))
    except (AssemblerError, ValueError, OSError) as why:
        raise InvalidInput(f"resources: {why}") from why
    if not found:
        print("nothing was launched on the emulated device", file=sys.stderr)
    for line in table(found, version):
        print(line)
    over = list(excesses(found, budget))
    for line in over:
        print(line)
    if options.report is not None:
        write(options.report, json.dumps(as_json(found, version, over), indent=2) + "\n")
    if options.write_budget is not None:
        write(options.write_budget, as_budget(found, version))
    return OVER if over else 0


def _launches(script: Path) -> list[LaunchResult]:
    """Run a prepared script on an emulated device. Its errors are printed.

    Raises ValueError for a CUDA program, which ends the process.
    """
    from ..host.session import emulated_gpu

    if is_program(script):
        raise ValueError(f"{script} is a CUDA program; allowed is a Python script. For a program use nvcc's -Xptxas -v")
    with emulated_gpu(diagnostics="report") as device:
        try:
            runpy.run_path(str(script), run_name="__main__")
        except (Exception, SystemExit) as error:
            print(f"{script} ended with {type(error).__name__}: {error}", file=sys.stderr)
    return device.launches


def needed(launches: Sequence[LaunchResult]) -> list[Resources]:
    """Resources of each kernel that was launched, in order. Raises AssemblerError."""
    found: dict[tuple[str, str], Resources] = {}
    modules: dict[str, dict[str, Resources]] = {}
    for launch in launches:
        if launch.ptx not in modules:
            modules[launch.ptx] = resources(launch.ptx, load(launch.ptx).syntax.target)
        found.setdefault((launch.ptx, launch.kernel), modules[launch.ptx][launch.kernel])
    return list(found.values())


def table(found: Sequence[Resources], version: str) -> Iterator[str]:
    """Yield the lines of the table. version: of ptxas."""
    yield f"{'registers':>9} {'stack':>6} {'spilled':>7} {'reloaded':>8} {'barriers':>8} {'SASS':>6}  kernel"
    for each in found:
        count = each.instruction_count
        yield (
            f"{each.registers:>9} {each.stack_bytes:>6} {each.spill_store_bytes:>7} {each.spill_load_bytes:>8} "
            f"{each.barriers:>8} {'' if count is None else count:>6}  {each.kernel[:LONGEST]}"
        )
    yield f"bytes of a thread, by ptxas {version}; a program's own compiler may be another version"


def read_budget(file: Path) -> Budget:
    """Read the budgets of a TOML file, by pattern. Raises ValueError for other than limits, OSError for no file."""
    budgets = tomllib.loads(file.read_text())
    for name, limits in budgets.items():
        known = isinstance(limits, dict) and all(isinstance(each, int) for each in limits.values())
        unknown = [] if not known else [limit for limit in limits if limit not in LIMITS]
        if not known or unknown:
            what = ", ".join(unknown) or f"{limits!r}"
            raise ValueError(f"{file}: [{name}] has {what}; allowed are whole numbers for {', '.join(LIMITS)}")
    return budgets


def excesses(found: Sequence[Resources], budget: Budget) -> Iterator[str]:
    """Yield a line for each value over its limit, and for each budget of a kernel that was not launched."""
    for pattern, limits in budget.items():
        kernels = [each for each in found if fnmatchcase(each.kernel, pattern)]
        if not kernels:
            yield f"over budget: [{pattern}] matches no kernel that was launched; remove it, or launch the kernel"
        for each in kernels:
            for limit, most in limits.items():
                value = _value(each, limit)
                if value is None:
                    yield f"over budget: {limit} of {each.kernel[:LONGEST]} is unknown: install nvidia-cuda-nvdisasm"
                elif value > most:
                    yield f"over budget: {each.kernel[:LONGEST]} needs {limit} {value}; the budget is {most}"


def as_json(found: Sequence[Resources], version: str, over: Sequence[str]) -> dict[str, Any]:
    """Table as values that JSON can represent. docs/reference/options.md lists the keys."""
    return {"format": 1, "ptxas": version, "kernels": [asdict(each) for each in found], "over_budget": list(over)}


def as_budget(found: Sequence[Resources], version: str) -> str:
    """Budget that the kernels need exactly, as TOML. A name that several kernels have gets their largest values."""
    lines = [f"# What the kernels need by ptxas {version}.\n"]
    for name in dict.fromkeys(each.kernel for each in found):
        same = [each for each in found if each.kernel == name]
        lines.append(f"\n[{json.dumps(name)}]\n")
        for limit in LIMITS:
            values = [value for each in same if (value := _value(each, limit)) is not None]
            if values:
                lines.append(f"{limit} = {max(values)}\n")
    return "".join(lines)


def _value(each: Resources, limit: str) -> int | None:
    if limit == "instructions":
        return each.instruction_count
    value: int = getattr(each, limit)
    return value
