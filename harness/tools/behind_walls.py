"""Run a command that imports the working tree's kernel as a phase of a run does: behind walls, in a home of its own.

`python -m harness.tools.behind_walls FOLDER -- COMMAND...` lets it write to FOLDER only, and exits with its code. On a
host that allows no walls the command runs without them, and this says so.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from harness.host import walls
from harness.host.journal import one_line
from harness.host.phase import kept_environment

#: Settings of the emulator and of CuTeDSL, which choose the chip.
OF_CHIP = ("CUTE_DSL_ARCH", "EMULATOR_DEVICE")


def main(arguments: list[str], environment: dict[str, str]) -> int:
    """Run the command line that the module's docstring describes."""
    folder, _, *command = arguments
    Path(folder).mkdir(parents=True, exist_ok=True)
    builder = [sys.executable, "-IS", walls.__file__]
    tried = subprocess.run([*builder, "--try"], capture_output=True, text=True, check=False)
    with tempfile.TemporaryDirectory(prefix="fmha-home-") as home:
        if tried.returncode:
            print(f"no walls around the kernel's code: {one_line(tried.stderr)}", file=sys.stderr)
        else:
            command = [*builder, str(Path(folder).resolve()), home, "--", *command]
        own = {"HOME": home, "TMPDIR": home, "PYTHONDONTWRITEBYTECODE": "1"}
        chosen = {name: environment[name] for name in OF_CHIP if name in environment}
        return subprocess.run(command, env=kept_environment() | chosen | own, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], dict(os.environ)))
