"""The shared `accepted`, which a target keeps for all its users, and this clone's own."""

from __future__ import annotations

from harness.client import vouched
from harness.client.acceptance import StaleBase
from harness.client.host import Host
from harness.host.repository import ACCEPTED, NOTES, GitError, Repository


def theirs(repository: Repository, host: Host) -> str:
    """Return the shared `accepted` ("" if there is none, or the target is not shared).

    If this clone's own `accepted` is an ancestor of it, it is moved there. Raises NotVouchedError if no run accepted
    the shared one.
    """
    found = host.accepted(repository) if host.target.shared else None
    if found is None:
        return ""
    vouched.check(repository, found, f"accepted on {host.target.name}")
    ours = repository.resolve(ACCEPTED)
    if ours != found and (ours is None or repository.is_ancestor(ours, found)):
        repository.move(ACCEPTED, found, ours, f"accepted by others on {host.target.name}")
    return found


def lacking(repository: Repository, commit: str, shared: str) -> str:
    """Return an accepted commit, this clone's or `shared`, that `commit` does not contain; "" if it contains both."""
    accepted = [each for each in (vouched.accepted(repository), shared) if each]
    return next((each for each in accepted if not repository.is_ancestor(each, commit)), "")


def share(repository: Repository, host: Host, commit: str, base: str) -> None:
    """Move the shared `accepted` from `base` ("": absent) to `commit`, and send this clone's notes along.

    Both move or neither does. Raises StaleBase if it is not at `base`.
    """
    if not host.target.shared:
        return
    try:
        host.push(repository, f"{commit}:{ACCEPTED}", f"+{NOTES}:{vouched.shared_notes(repository)}", lease=base)
    except GitError as error:
        now = host.accepted(repository)
        if not (now and repository.is_ancestor(commit, now)):
            raise StaleBase(f"accepted on {host.target.name} moved to {(now or 'nothing')[:12]}") from error
