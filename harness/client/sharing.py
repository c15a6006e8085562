"""The `accepted` that other people see, kept on a target, beside the one of this clone."""

from __future__ import annotations

from harness.client.acceptance import StaleBase
from harness.client.host import Host
from harness.host.repository import ACCEPTED, GitError, Repository


def theirs(repository: Repository, host: Host) -> str:
    """Where the `accepted` of others is ("": nowhere, or nobody shares the target).

    This clone's own follows it where it is merely behind.
    """
    found = host.accepted(repository) if host.target.shared else None
    if found is None:
        return ""
    ours = repository.resolve(ACCEPTED)
    if ours != found and (ours is None or repository.is_ancestor(ours, found)):
        repository.move(ACCEPTED, found, ours, f"accepted by others on {host.target.name}")
    return found


def lacking(repository: Repository, commit: str, shared: str) -> str:
    """What was accepted, here or by others at `shared`, that `commit` does not hold; "" where it holds all."""
    accepted = [each for each in (repository.resolve(ACCEPTED), shared) if each]
    return next((each for each in accepted if not repository.is_ancestor(each, commit)), "")


def share(repository: Repository, host: Host, commit: str, base: str) -> None:
    """Move the `accepted` of others from `base` ("": nowhere) to `commit`. Raises StaleBase where it is elsewhere."""
    if not host.target.shared:
        return
    try:
        host.push(repository, f"{commit}:{ACCEPTED}", lease=base)
    except GitError as error:
        now = host.accepted(repository)
        if not (now and repository.is_ancestor(commit, now)):
            raise StaleBase(f"accepted on {host.target.name} moved to {(now or 'nothing')[:12]}") from error
