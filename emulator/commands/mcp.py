"""The command `mcp`: a server of the Model Context Protocol, by which coding assistants use the emulator.

Each tool runs a command of this package in a process of its own, so that no script can disturb the server.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

from ..findings import findings_in
from .sarif import version
from .scripts import InvalidInput

LONGEST: Final = 30_000
"""The most characters of a command's output that a tool returns: its beginning and its end."""
PATIENCE_S: Final = 600
INSTRUCTIONS: Final = """Runs CUDA programs (CuTeDSL, Triton, CUDA C++, PTX) on an emulated NVIDIA B200 without a GPU.
`run` tells whether a script has races, missing waits, hangs or out-of-bounds accesses; `findings` has the whole reports
of the last run. `blame` explains one wrong element of an output, `debug` executes commands of the debugger, `time`
predicts what bounds a launch, `compare` predicts two versions. Start with `run`. Paths are relative to the server's
working folder."""
Json = dict[str, Any]


class NoAnswer(RuntimeError):
    """A command did not answer a tool's question."""


class Tools:
    """The tools of a server. They remember the report of the last run."""

    def __init__(self) -> None:
        self._report: Json | None = None

    def run(
        self,
        script: str,
        arguments: Sequence[str] = (),
        completion: Literal["eager", "lazy", "random", "all"] = "lazy",
        seed: int = 0,
        level: Literal["fault", "formal", "pedantic"] = "fault",
        device: str = "b200",
        timeout_s: int = PATIENCE_S,
    ) -> Json:
        """Run a script on the emulated device. Return its verdict, the findings in short, and its output.

        script: a Python script or a program linked by nvcc. arguments: those of the script. completion: when
        asynchronous work completes; `lazy` finds missing waits, `random` depends on `seed`. level: findings that count
        as errors. Ask the tool `findings` for the whole report of a finding.
        """
        with TemporaryDirectory(prefix="emulator-mcp-") as folder:
            file = Path(folder) / "report.json"
            options = ["--completion", completion, "--seed", str(seed), "--level", level, "--device", device]
            options += ["--diagnostics", "report", "--report", str(file)]
            code, said = _command(["run", *options, script, *arguments], timeout_s)
            if not file.exists():
                raise NoAnswer(f"the run wrote no report and exited with {code}:\n{said}")
            self._report = json.loads(file.read_text())
        short = [_short(number, each) for number, each in enumerate(findings_in(self._report), 1)]
        return {"verdict": self._report["verdict"], "exit_code": code, "findings": short, "output": said}

    def findings(self, number: int | None = None) -> list[Json]:
        """Return the findings of the last `run` with their whole reports; number: only that one, from 1."""
        if self._report is None:
            raise NoAnswer("nothing was run yet: call the tool `run` first")
        found = findings_in(self._report)
        if number is None:
            return found
        if not 1 <= number <= len(found):
            raise NoAnswer(f"number is {number}; the last run has {len(found)} findings, counted from 1")
        return [found[number - 1]]

    def time(
        self,
        script: str,
        arguments: Sequence[str] = (),
        chip: str = "b200",
        l2: Literal["cold", "warm", "dirty"] = "cold",
        timeout_s: int = PATIENCE_S,
    ) -> str:
        """Predict the time of a script's launches: cycles, what bounds them, waits by mbarrier, source lines.

        Nothing is measured, and launches compute no outputs: a script must not compare results.
        """
        return _said(["time", "--chip", chip, "--l2", l2, script, *arguments], timeout_s)

    def compare(
        self, base: str, head: str, script: str = "", arguments: Sequence[str] = (), timeout_s: int = PATIENCE_S
    ) -> str:
        """Predict two versions of a script and say what differs: cycles, waits by role, source lines, instructions.

        base, head: commits of the script's repository, or two scripts (then without `script`).
        """
        return _said(["time", "--compare", base, head, *([script] if script else []), *arguments], timeout_s, (2, 3))

    def debug(
        self,
        script: str,
        commands: Sequence[str],
        arguments: Sequence[str] = (),
        launch: int | None = None,
        timeout_s: int = PATIENCE_S,
    ) -> str:
        """Execute commands of the debugger on a script's launches, and return what they print.

        commands: such as "break kernel.py:86 -c 0,0,0", "continue", "regs", "smem a", "tmem 0:32 -t f32", "barriers",
        "back 5"; "help" lists them all. Each launch stops before its first instruction. launch: only that one, from 1.
        """
        options = [part for command in commands for part in ("--command", command)]
        options += [] if launch is None else ["--launch", str(launch)]
        return _said(["debug", *options, script, *arguments], timeout_s)

    def blame(
        self,
        script: str,
        output: str = "",
        expected: str = "",
        element: str = "",
        against: str = "",
        rtol: float | None = None,
        atol: float | None = None,
        arguments: Sequence[str] = (),
        timeout_s: int = PATIENCE_S,
    ) -> str:
        """Find which instructions and inputs made an element of an output wrong.

        output: the variable of the script that holds it. expected: a .npy file of what it should be. Without both, it
        is the tensor that a comparison of torch or numpy in the script rejected. element: its index, such as "3,17"; by
        default the one with the largest error. against: a script with a right version. rtol, atol: differences that are
        not wrong.
        """
        texts = {"output": output, "expected": expected, "element": element, "against": against}
        given: Json = {**texts, "rtol": rtol, "atol": atol}
        options = [
            part for name, value in given.items() if value not in ("", None) for part in (f"--{name}", str(value))
        ]
        return _said(["blame", *options, script, *arguments], timeout_s)

    def coverage(self, family: str = "") -> list[Json]:
        """Return which PTX instructions are emulated. family: those whose name begins with it, such as "tcgen05"."""
        from ..coverage import families, read_forms

        rows = [row for row in families(read_forms()) if row.name.startswith(family)]
        return [
            {
                "family": row.name,
                "section": row.section,
                "state": row.state,
                "forms": len(row.forms),
                "rejected": [form.spelling for form in row.rejected],
            }
            for row in rows
        ]


NAMES: Final = ("run", "findings", "time", "compare", "debug", "blame", "coverage")


def add_command(commands: Any) -> None:
    """Add this subcommand to the parser."""
    command = commands.add_parser(
        "mcp",
        help="serve these commands to coding assistants over standard input and output",
        description="A server of the Model Context Protocol over standard input and output, with the tools "
        f"{', '.join(NAMES)}. It needs the package mcp: pip install 'ptx-emulator[mcp]'.",
    )
    command.set_defaults(do=_serve)


def _serve(_options: argparse.Namespace) -> int:
    if find_spec("mcp") is None or find_spec("mcp.server.mcpserver") is None:
        raise InvalidInput("mcp needs the package mcp, version 2: pip install 'ptx-emulator[mcp]'")
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.server.mcpserver.tools import Tool

    def with_reasons(tool: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(tool)
        def answer(*arguments: Any, **named: Any) -> Any:
            try:
                return tool(*arguments, **named)
            except NoAnswer as why:
                raise ToolError(str(why)) from why  # the server hides the text of other errors

        return answer

    def strict(tool: Tool) -> Tool:
        """Make a tool reject arguments that it does not have, which the package ignores."""
        model = tool.fn_metadata.arg_model
        model.model_config["extra"] = "forbid"
        model.model_rebuild(force=True)
        tool.parameters = model.model_json_schema(by_alias=True)
        return tool

    answering = Tools()
    tools = [strict(Tool.from_function(with_reasons(getattr(answering, name)))) for name in NAMES]
    MCPServer("ptx-emulator", instructions=INSTRUCTIONS, version=version(), tools=tools).run()
    return 0


def _command(arguments: Sequence[str], timeout_s: int) -> tuple[int, str]:
    """Run a command of this package; return its exit code and output. Raises NoAnswer after `timeout_s`."""
    command = [sys.executable, "-m", __package__.rpartition(".")[0], *arguments]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,  # the server's is the protocol's
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise NoAnswer(f"{arguments[0]} was ended after {timeout_s} s: ask with a larger timeout_s") from error
    text = done.stdout
    if len(text) > LONGEST:
        half = LONGEST // 2
        text = f"{text[:half]}\n({len(text) - LONGEST} characters left out)\n{text[-half:]}"
    return done.returncode, text


def _said(arguments: Sequence[str], timeout_s: int, failed: Collection[int] = (2,)) -> str:
    """Output of a command. Raises NoAnswer with it for an exit code of `failed`; 2: it rejects its arguments."""
    code, text = _command(arguments, timeout_s)
    if code in failed:
        raise NoAnswer(text)
    return text if code == 0 else f"{text}\nexit code {code}"


def _short(number: int, finding: Mapping[str, Any]) -> Json:
    """Summary of a finding: number, class, message and place."""
    kept = ("class", "level", "message", "missing", "source", "ptx_line", "kernel", "times")
    return {"number": number} | {name: finding[name] for name in kept if finding.get(name)}
