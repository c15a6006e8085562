"""The runs of all users on a target, fetched for the dashboard. Nothing is accepted."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.client.host import PROBE, Host, reach
from harness.host.job import RUN_ID
from harness.host.ruling import RULING_NAME, Ruling, RulingError, decode
from harness.report import page
from harness.report.page import Run
from remote.errors import RemoteError
from remote.program import send
from remote.target import Target

COMMIT = re.compile(r"[0-9a-f]{40,64}")


def gather(target: Target, results: Path) -> Iterator[Run]:
    """Yield the newest runs on `target` that have ended. Their results are fetched once, into a folder of `results`.

    Runs that cannot be read are skipped. Raises RemoteError if the target cannot be reached.
    """
    with reach(target) as host:
        for row in send(target, host.link, PROBE, "runs", {"workdir": target.workdir}).get("runs", []):
            run = _brought(host, row, results / ".hosts" / target.name)
            if run is not None:
                yield run


def _brought(host: Host, row: dict[str, Any], folder: Path) -> Run | None:
    """Return a run, and fetch its results and write its reports if they are not here; None without a valid verdict."""
    run, commit = str(row.get("run")), str(row.get("commit"))
    if not RUN_ID.fullmatch(run) or not COMMIT.fullmatch(commit):
        return None
    with suppress(OSError, RulingError):
        return _shown(decode((folder / run / RULING_NAME).read_bytes(), run, commit), folder / run)
    with suppress(RemoteError):
        ruling = host.ruling(run, commit)
        if ruling is not None:
            host.fetch(ruling, folder / run)
            (folder / run).mkdir(parents=True, exist_ok=True)
            page.write_reports(_shown(ruling, folder / run))
            ruling.write(folder / run)
            return _shown(ruling, folder / run)
    return None


def _shown(ruling: Ruling, folder: Path) -> Run:
    return Run(ruling.subject, ruling.started, ruling.verdict.name, ruling.reason, folder)
