"""Access to a run on its target: follow it, read its verdict, cancel it, fetch its results.

The client runs `python -m harness.host.log_follower VERB RUN_FOLDER` on the target, from the run's own engine.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from harness.host import lock
from harness.host.files import remove, write_atomically
from harness.host.job import RunFolder
from harness.host.journal import BEAT_EVERY_S, read_beat, read_events
from harness.host.repository import Repository
from harness.host.ruling import MAX_BYTES, RULING_NAME

POLL_S = 0.05


def follow(folder: RunFolder, offset: int, watched: bool = False) -> None:
    """Print the journal from byte `offset` on, and a heartbeat every second, until the run has ended.

    Each line is a JSON object: {"event": ..., "offset": n} or {"beat": ..., "age_s": s}. The last one is {"ended":
    true}, or {"dead": true} if the supervisor died without a verdict. With `watched`, the caller checks whether the
    supervisor is alive, and "dead" is never printed.
    """
    beaten = 0.0
    while True:
        ruled = (folder.path / RULING_NAME).exists()
        alive = watched or lock.is_held(folder.alive)
        for event, offset in read_events(folder.journal, offset):  # noqa: B020
            _say(event=event, offset=offset)
        if ruled or (not alive and not (folder.path / RULING_NAME).exists()):
            if not ruled:
                clear_away(folder)
            _say(**({"ended": True} if ruled else {"dead": True}))
            return
        if time.monotonic() - beaten >= BEAT_EVERY_S:
            beaten = time.monotonic()
            beat, age_s = read_beat(folder.heartbeat) or ({}, 0.0)
            _say(beat=beat, age_s=round(age_s, 1))
        time.sleep(POLL_S)


def survey(folders: list[RunFolder]) -> None:
    """Print a JSON list: for each run if it has ended, if its supervisor is alive, and its last heartbeat."""
    stands = []
    for folder in folders:
        alive = lock.is_held(folder.alive)
        beat, _ = read_beat(folder.heartbeat) or ({}, 0.0)
        stands.append({"ended": (folder.path / RULING_NAME).exists(), "alive": alive, "beat": beat})
    print(json.dumps(stands))


def clear_away(folder: RunFolder) -> None:
    """Remove the checkout and the home folder that a killed supervisor left behind.

    A supervisor that wrote a verdict removes them itself.
    """
    if (folder.path / RULING_NAME).exists():
        return
    remove(folder.tree)
    remove(folder.home)
    Repository(folder.workplace.repository, plain=True).succeeds("worktree", "prune")


def ruling(folder: RunFolder) -> None:
    """Copy the verdict file to standard output."""
    with open(folder.path / RULING_NAME, "rb") as stream:
        sys.stdout.buffer.write(stream.read(MAX_BYTES + 1))


def cancel(folder: RunFolder, who: str) -> None:
    """Ask the supervisor to end the run, on behalf of `who`."""
    write_atomically(folder.cancel, who.encode())


def fetch(folder: RunFolder) -> None:
    """Write the results that the verdict file lists to standard output, as a tar stream."""
    import tarfile  # takes a fifth of the start of this program, which does not need it otherwise

    files = json.loads((folder.path / RULING_NAME).read_bytes())["files"]
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as archive:
        for path in sorted(files):
            archive.add(folder.out / path, arcname=path, recursive=False)


def _say(**fields: object) -> None:
    print(json.dumps(fields), flush=True)


VERBS: dict[str, Callable[..., None]] = {
    "follow": lambda folder, offset, *watched: follow(folder, int(offset), "watched" in watched),
    "survey": lambda folder, *others: survey([folder, *(RunFolder(Path(each)) for each in others)]),
    "ruling": ruling,
    "clear": clear_away,
    "cancel": cancel,
    "fetch": fetch,
}


def main(verb: str, path: str, *rest: str) -> int:
    """Carry out `verb` for the run in folder `path`. Return the exit code."""
    if verb not in VERBS:
        raise SystemExit(f"verb {verb!r}: allowed are {', '.join(VERBS)}")
    VERBS[verb](RunFolder(Path(path)), *rest)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
