"""Submits a batch job to Slurm, once.

It is sent over the link as text, so it imports the standard library only. The client calls `submit`.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ANSWER_S = 60.0


def submit(name: str, options: list[str], script: str, folders: list[str], workdir: str) -> dict[str, str]:
    """Submit `script` as job `name`, and write the number of each task into the file `slurm` of its folder.

    If these files exist, or Slurm has a job of that name, nothing is submitted. Nodes that are marked broken are
    excluded.
    """
    if all(Path(folder, "slurm").exists() for folder in folders):
        return {}
    number = ask(["squeue", "--noheader", "--states=all", f"--name={name}", "--format=%F"], "").split()[:1]
    if not number:
        broken = [path.stem for path in Path(workdir).expanduser().glob("locks/*.broken")]
        exclude = [f"--exclude={','.join(broken)}"] if broken else []
        number = ask(["sbatch", "--parsable", f"--job-name={name}", *options, *exclude], script).split(";")[:1]
    for task, folder in enumerate(folders):
        fresh = Path(folder, f"slurm.{os.getpid()}")
        fresh.write_text(number[0].strip() + (f"_{task}\n" if len(folders) > 1 else "\n"))
        fresh.rename(Path(folder, "slurm"))
    return {}


def ask(argv: list[str], stdin: str) -> str:
    """Return the output of a Slurm command."""
    try:
        done = subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=ANSWER_S)
    except FileNotFoundError:
        raise SystemExit(f"{argv[0]} is not installed there: host must be a login node of the cluster") from None
    except subprocess.TimeoutExpired as error:
        said = (error.stderr or b"").decode(errors="replace").split()  # bytes, also of text
        raise SystemExit(" ".join([f"{argv[0]} did not end in {ANSWER_S:.0f} s:", *said])[-400:].rstrip(":")) from None
    if done.returncode != 0:
        raise SystemExit(f"{argv[0]}: {' '.join(done.stderr.split())[-300:]}")
    return done.stdout
