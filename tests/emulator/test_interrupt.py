"""Ctrl-C during an endless launch prints the table of all warps, and the process reports the interrupt."""

import signal
import subprocess
import sys
from pathlib import Path

import psutil
from test_processes import spend_a_second

HERE = Path(__file__).parent
PROGRAM = """
import signal
import sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # nohup and background jobs ignore it
sys.path.insert(0, sys.argv[1])
import numpy as np
from ptx_kernel import launch, source
print("ready", flush=True)
launch(source("L: add.s32 %r0, %r0, 1; bra L; ret;", block=64), np.zeros(1), block=64)
"""


def test_sigint_shows_the_table_and_ends_the_process() -> None:
    command = [sys.executable, "-c", PROGRAM, str(HERE)]
    process = subprocess.Popen(
        command, cwd=HERE.parent.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        spend_a_second(psutil.Process(process.pid))
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=600)
    finally:
        process.kill()
    assert process.returncode != 0
    assert "interrupted" in errors
    assert "warp 0 of CTA (0,0,0): PTX line" in errors and "warp 1 of CTA (0,0,0): PTX line" in errors, errors
