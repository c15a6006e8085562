"""Commands of the harness, run in this process as if typed."""

import io
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from unittest import mock

from harness import cli


@dataclass(frozen=True)
class Done:
    """Exit code of a command, and its standard output and error together."""

    exit_code: int
    output: str


def typed(*arguments: str, answer: str = "") -> Done:
    """Run `python -m harness` with `arguments`, its standard input `answer`."""
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said), mock.patch("sys.stdin", io.StringIO(answer)):
        code = cli.main(arguments)
    return Done(code, said.getvalue())
