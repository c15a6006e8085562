"""`python -m harness`."""

from harness.cli import app

app(prog_name="python -m harness")
