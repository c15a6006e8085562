"""The predictions of one version, in a process of its own: `python -m ...comparison.measured JSON`.

The emulator is that of the caller for both versions, so that only the program differs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from ...bridge.result import LaunchResult
from ...emulation import EmulatedDevice
from ...modules import load
from ..scripts import NO_OUTPUTS, InvalidInput, exit_code, prepare, run_script
from .places import source_text
from .sides import NotPredicted, Side

PTX_LINE: Final = "PTX line "
NARROW: Final = 1 / 1000
"""Gaps narrower than this share of a launch are closed in its timeline."""
LATE: Final = 4
"""The exit code of a version whose script failed after it had launched, as a check of results does."""
LAST: Final = 25
"""Lines of a failed script's output that are shown."""
HERE: Final = Path(__file__).parents[2]
Json = dict[str, Any]


def start(side: Side, arguments: Sequence[str], conditions: Json, out: Path) -> subprocess.Popen[str]:
    """Start to predict the launches of a version. conditions: chip, l2, data, ghz, code.

    out: the file for its figures.
    """
    asked = {
        "script": str(side.script),
        "arguments": list(arguments),
        "folder": str(side.folder),
        "copied": None if side.copied is None else str(side.copied),
        "checkout": None if side.checkout is None else str(side.checkout),
        "conditions": conditions,
        "out": str(out),
    }
    command = [sys.executable, "-m", f"{__package__}.measured", json.dumps(asked)]
    return subprocess.Popen(command, cwd=HERE.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finished(side: Side, process: subprocess.Popen[str], out: Path) -> list[Json]:
    """Wait for a version and return the figures of its launches. Raises NotPredicted."""
    said, _ = process.communicate()
    if process.returncode == LATE and out.exists():
        print(f"{side.label} failed after its launches, which are compared. {NO_OUTPUTS}", file=sys.stderr)
    elif process.returncode or not out.exists():
        lines = "\n".join(said.rstrip().splitlines()[-LAST:])
        hint = f"\n{NO_OUTPUTS}" if "AssertionError" in lines else ""
        raise NotPredicted(f"{side.label} was not predicted to its end:\n{lines}{hint}")
    launches: list[Json] = json.loads(out.read_text())
    return launches


def main() -> int:
    """Predict the launches that argv's JSON asks for, and write their figures. Return the exit code."""
    asked = json.loads(sys.argv[1])
    copied, checkout = asked["copied"], asked["checkout"]
    os.chdir(asked["folder"])
    sys.path[0] = asked["folder"]  # python -m puts the emulator's parent there
    if copied is not None:
        sys.path[:] = [moved(each, Path(copied), Path(checkout)) for each in sys.path]
    try:
        prepare(Path(asked["script"]), asked["arguments"])
    except InvalidInput as why:
        print(why)
        return 2
    from ...clock.conditions import Conditions
    from ...emulation import emulate
    from ...host.session import emulated_host

    conditions = dict(asked["conditions"])
    chip = conditions.pop("chip")
    with emulated_host(), emulate(clock=chip, trace=True, conditions=Conditions(**conditions)) as device:
        end = partial(_end, device, asked)
        try:
            run_script(Path(asked["script"]), asked["arguments"], end)
        except (Exception, SystemExit) as left:
            if isinstance(left, Exception) and not device.launches:
                raise
            return end(exit_code(left))
        return end(0)


def _end(device: EmulatedDevice, asked: Json, code: int) -> int:
    """Write the figures of the launches, and return the exit code."""
    if device.failures or device.error:
        print(*(failure.error for failure in device.failures), device.error or "", sep="\n")
        return 3
    if asked["copied"] is not None and (wrong := of_working_tree(Path(asked["copied"]))):
        print(f"imported from the working tree instead of the commit: {', '.join(wrong)}")
        print(
            "a package that is installed by an import hook is found there: install it with a .pth file, or not at all"
        )
        return 3
    Path(asked["out"]).write_text(json.dumps([figures(launch) for launch in device.launches]))
    return LATE if code and device.launches else code


def moved(entry: str, repository: Path, checkout: Path) -> str:
    """Return an entry of sys.path; the checkout's folder for one of the repository that the commit has too."""
    path = Path(entry or ".").resolve()
    if path.is_relative_to(repository):
        there = checkout / path.relative_to(repository)
        return str(there) if there.is_dir() else entry
    return entry


def of_working_tree(repository: Path) -> list[str]:
    """Return the imported modules whose files git tracks in the repository, all but the emulator's."""
    done = subprocess.run(["git", "-C", repository, "ls-files", "-z"], capture_output=True, text=True, check=False)
    tracked = {str(repository / name) for name in done.stdout.split("\0")}
    files = {name: str(getattr(module, "__file__", None)) for name, module in list(sys.modules.items())}
    return sorted(name for name, file in files.items() if file in tracked and not Path(file).is_relative_to(HERE))


def figures(launch: LaunchResult) -> Json:
    """Return a launch's figures as values that JSON can represent."""
    prediction = launch.prediction
    assert prediction is not None and prediction.trace is not None
    said = prediction.as_json()
    places = [each["where"] for each in said["lines"]]
    trace = json.loads(prediction.trace.json())["traceEvents"]
    return {
        "kernel": launch.kernel,
        "prediction": said,
        "texts": {where: _text(where, launch.ptx) for where in places},
        "timeline": [[name, rows] for name, rows in timeline(trace)],
        "ptx": launch.ptx,
        "target": load(launch.ptx).syntax.target,
    }


def _text(where: str, ptx: str) -> str:
    """Return the text of a place like "file.py:3 in f" or "PTX line 7", "" if it is not known."""
    if where.startswith(PTX_LINE):
        return ptx.splitlines()[int(where.removeprefix(PTX_LINE)) - 1].strip()
    return source_text(where)


def timeline(events: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, dict[str, list[tuple[int, int]]]]]:
    """Yield the rows of the first CTA in a trace: spans (start, end) of a warp, a unit, or an mbarrier's waits by kind.

    Kinds are runs, waits, unit, copy and barrier.
    """
    first = [event for event in events if event["pid"] == 1]
    names = {event["tid"]: event["args"]["name"] for event in first if event["name"] == "thread_name"}
    end = max((event["ts"] + event["dur"] for event in first if event["ph"] == "X"), default=1)
    rows: dict[str, dict[str, list[tuple[int, int]]]] = {name: {} for _, name in sorted(names.items())}
    barriers: dict[str, dict[str, list[tuple[int, int]]]] = {}
    for event in first:
        if event["ph"] != "X":
            continue
        name, span = names[event["tid"]], (event["ts"], event["ts"] + event["dur"])
        what = event["name"].removeprefix("waits for ")
        kind = "waits" if what != event["name"] else {"copies": "copy", "tensor core": "unit"}.get(name, "runs")
        rows[name].setdefault(kind, []).append(span)
        if kind == "waits":
            barriers.setdefault(what, {}).setdefault("barrier", []).append(span)
    for name, kinds in [*rows.items(), *sorted(barriers.items())]:
        yield name, {kind: _joined(spans, end * NARROW) for kind, spans in kinds.items()}


def _joined(spans: Sequence[tuple[int, int]], narrow: float) -> list[tuple[int, int]]:
    """Return spans in order, those that overlap or nearly touch as one."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start - found[-1][1] <= narrow:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found


if __name__ == "__main__":
    sys.exit(main())
