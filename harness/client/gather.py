"""The runs of everybody on a target, brought here to be looked at: nothing is accepted by it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.client.host import PROBE, Host
from harness.host.job import RUN_ID
from harness.host.ruling import RULING_NAME, Ruling, RulingError, decode
from harness.report.page import Run
from remote.errors import RemoteError
from remote.program import send
from remote.target import Target

COMMIT = re.compile(r"[0-9a-f]{40,64}")


def gather(target: Target, results: Path) -> Iterator[Run]:
    """The newest runs on `target` that have ended; their results are fetched once, below `results`.

    Raises RemoteError where the target is not reached; a run that cannot be read is left out.
    """
    link = target.connect()
    try:
        host = Host(target, link)
        for row in send(target, link, PROBE, {"verb": "runs", "workdir": target.workdir}).get("runs", []):
            ruling = _brought(host, row, results / ".hosts" / target.name)
            if ruling is not None:
                folder = results / ".hosts" / target.name / ruling.subject.run
                yield Run(ruling.subject, ruling.started, ruling.verdict.name, ruling.reason, folder)
    finally:
        link.close()


def _brought(host: Host, row: dict[str, Any], folder: Path) -> Ruling | None:
    """The verdict of a run, whose results are here then; None where there is none that can be believed."""
    run, commit = str(row.get("run")), str(row.get("commit"))
    if not RUN_ID.fullmatch(run) or not COMMIT.fullmatch(commit):
        return None
    with suppress(OSError, RulingError):
        return decode((folder / run / RULING_NAME).read_bytes(), run, commit)
    with suppress(RemoteError):
        ruling = host.ruling(run, commit)
        if ruling is not None:
            host.fetch(run, ruling.files, folder / run)
            (folder / run).mkdir(parents=True, exist_ok=True)
            ruling.write(folder / run)
        return ruling
    return None
