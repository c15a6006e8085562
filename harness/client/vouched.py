"""The accepted commit and the notes that vouch for it. `accepted` counts only if its tip has a note of an ACCEPT.

A candidate's process runs as the user, and could move the ref. Notes of this clone lie in `NOTES`, those that were
fetched with the `accepted` of a shared target or of a remote below `FETCHED`. A fetch of somebody's notes may overwrite
the former: there an ACCEPT counts only beside the candidate of its run, which each run of this clone leaves.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from harness.client.candidate import CANDIDATES, CandidateError, identity, user_name
from harness.host.journal import now
from harness.host.protected import PROTECTION
from harness.host.repository import ACCEPTED, NOTES, GitError, Repository
from harness.host.verdict import Verdict

FETCHED = "refs/notes/from"
#: Options of a fetch that changes nothing but the refs that it names.
QUIETLY = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance")
MOST_LOOKED_AT = 1000
#: The setting of a clone's git that distinguishes its notes from those of the same user's other clones.
CLONE = "fmha.clone"
#: The verdict, in notes, of an accepted run that was revoked.
REVOKED = "REVOKED"


class NothingAcceptedError(CandidateError):
    """A run that is to be revoked accepted nothing."""


class NotVouchedError(CandidateError):
    """`accepted` is at a commit that no run accepted. The message names the fix."""


def fetched_notes(source: str) -> str:
    """Return the refspec that fetches the notes of `source`."""
    return f"+{NOTES}*:{FETCHED}/{source}/verdicts*"


def shared_notes(repository: Repository) -> str:
    """Return the ref of this clone's notes where others fetch them. A user's other clones have refs of their own."""
    try:
        clone = repository.git("config", "--local", "--get", CLONE)
    except GitError:
        clone = secrets.token_hex(4)
        repository.git("config", "--local", CLONE, clone)
    return f"{NOTES}-{user_name()}-{clone}"


def notes(repository: Repository, commit: str) -> list[dict[str, Any]]:
    """Return the notes of a commit, oldest first: those of this clone, then those of others about other runs.

    The verdict of an accepted run that was revoked is REVOKED, and its reason that of the revocation.
    """
    found: dict[str, dict[str, Any]] = {}
    revoked: dict[str, str] = {}
    refs = _refs(repository)
    own = {ref.rsplit("/", 1)[1] for ref, at in refs.items() if ref.startswith(CANDIDATES) and at == commit}
    for ref, state in note_refs(refs).items():
        try:
            text = _note(repository, ref, state, commit)
        except GitError:
            continue
        for line in text.splitlines():
            if line.startswith("{"):
                known = json.loads(line)
                if "revokes" in known:
                    revoked[known["revokes"]] = f"revoked by {known['user']}: {known['because']}"
                elif ref != NOTES or known["verdict"] != Verdict.ACCEPT.name or known["run"] in own:
                    found.setdefault(known["run"], known)
    for run in revoked.keys() & found.keys():
        found[run] |= {"verdict": REVOKED, "reason": revoked[run]}
    return list(found.values())


@cache
def _note(repository: Repository, ref: str, _state: str, commit: str) -> str:
    """Return the note of a commit in one state of a ref. Raises GitError if it has none."""
    return repository.git("notes", f"--ref={ref}", "show", commit)


def rejections(repository: Repository, tree: str) -> list[str]:
    """Return the runs that rejected a commit with this tree: a change may be tried until it passes."""
    commits = sorted(commits_with_notes(repository))
    command = ("log", "--no-walk=unsorted", "--ignore-missing", "--format=%H %T", "--stdin")
    rows = repository.git(*command, stdin="\n".join(commits)).splitlines() if commits else []
    same = (row.split()[0] for row in rows if row.endswith(f" {tree}"))
    known = (each for commit in same for each in notes(repository, commit))
    return sorted(each["run"] for each in known if (v := each["verdict"]) in Verdict.__members__ and Verdict[v].rejects)


def revoked_below(repository: Repository, tip: str) -> Iterator[dict[str, Any]]:
    """Yield the notes of revoked runs in the history of `tip`."""
    for commit in sorted(commits_with_notes(repository)):
        for known in notes(repository, commit):
            if known["verdict"] == REVOKED and repository.is_ancestor(commit, tip):
                yield known | {"commit": commit}


def revoke(repository: Repository, run: str, commit: str, user: str, because: str) -> str:
    """Take the acceptance of a commit by a run back, with a reason. Return a sentence about `accepted`.

    If `accepted` is at that commit, and no other run accepted it, it moves to the newest commit before it that a run
    accepted. Raises NothingAcceptedError if the run did not accept the commit.
    """
    if not any(known["run"] == run and known["verdict"] == Verdict.ACCEPT.name for known in notes(repository, commit)):
        raise NothingAcceptedError(f"run {run} did not accept {commit[:12]}, or was revoked already")
    line = {"revokes": run, "user": user, "because": because, "at": now()}
    append(repository, commit, line)
    if repository.resolve(ACCEPTED) != commit:
        return f"{commit[:12]} stays in the history of accepted; verdicts that rest on it say so"
    if is_vouched(repository, commit):
        return f"accepted stays at {commit[:12]}, which another run accepted"
    older = newest_vouched(repository, commit)
    if older:
        repository.move(ACCEPTED, older, commit, f"revoked {run}")
        return f"accepted is back at {older[:12]}"
    repository.git("update-ref", "-d", ACCEPTED, commit)
    return "nothing is accepted any more"


def append(repository: Repository, commit: str, line: dict[str, Any]) -> None:
    """Add a line to this clone's notes of a commit."""
    said, env = json.dumps(line), identity(repository)
    repository.git("notes", f"--ref={NOTES}", "append", "-F", "-", commit, stdin=said, env=env)


def commits_with_notes(repository: Repository) -> set[str]:
    """Return the commits that have notes."""
    refs = note_refs(_refs(repository))
    lists = (repository.git("notes", f"--ref={ref}", "list").splitlines() for ref in refs)
    return {row.split()[1] for rows in lists for row in rows}


def note_refs(refs: Mapping[str, str]) -> dict[str, str]:
    """Return the refs of notes with the ids of their commits, this clone's own first."""
    return {ref: refs[ref] for ref in sorted(refs, key=lambda ref: ref != NOTES) if not ref.startswith(CANDIDATES)}


def _refs(repository: Repository) -> dict[str, str]:
    """Return the refs of notes and of this clone's candidates with the ids of their commits."""
    command = ("for-each-ref", "--format=%(refname) %(objectname)", NOTES, FETCHED, CANDIDATES)
    return dict(row.split(" ") for row in repository.git(*command).splitlines())


def is_vouched(repository: Repository, commit: str) -> bool:
    """Return True if a run accepted the commit."""
    return any(known["verdict"] == Verdict.ACCEPT.name for known in notes(repository, commit))


def accepted(repository: Repository) -> str | None:
    """Return the accepted commit, None if there is none. Raises NotVouchedError if no run accepted it."""
    tip = repository.resolve(ACCEPTED)
    if tip is not None:
        check(repository, tip, "accepted")
    return tip


def check(repository: Repository, tip: str, name: str) -> None:
    """Raise NotVouchedError unless a run accepted `tip`, which `name` is at."""
    if is_vouched(repository, tip):
        return
    last = newest_vouched(repository, tip)
    back = f"git update-ref {ACCEPTED} {last[:12]}" if last else f"git update-ref -d {ACCEPTED}"
    raise NotVouchedError(
        f"{name} is at {tip[:12]}, which has no note of an ACCEPT: no run of the harness moved it there. If others "
        f"accepted it, fetch their notes (git fetch REMOTE '{fetched_notes('REMOTE')}'); if not, look who moved it "
        f"(git reflog accepted) and take it back: {back}"
    )


def newest_vouched(repository: Repository, tip: str) -> str:
    """Return the newest commit in the history of `tip` that a run accepted; "" if there is none."""
    known = commits_with_notes(repository)
    history = repository.git("rev-list", f"--max-count={MOST_LOOKED_AT}", tip).split()
    return next((each for each in history if each in known and is_vouched(repository, each)), "")


def fetch_accepted(repository: Repository) -> str:
    """Make `accepted` from that of origin, if this clone has none yet. Return a sentence about it, "" if not.

    A clone has the remote's `accepted` as a remote-tracking branch, and none of its notes: they are fetched. The remote
    that the current branch follows counts if there is no origin. Anybody can push a branch `accepted` with a note to a
    fork, and its pins would judge: from other remotes it is taken by hand only. Raises NotVouchedError with the command
    if another remote has it, or if what judges there differs from this branch.
    """
    if repository.resolve(ACCEPTED):
        return ""
    remotes = repository.git("remote").split()
    root = "origin" if "origin" in remotes else _followed(repository)
    found = {name: repository.resolve(f"refs/remotes/{name}/accepted") for name in remotes}
    others = sorted(name for name, tip in found.items() if tip)
    if not others:
        return ""
    name = root if found.get(root) else others[0]
    tip = str(found[name])
    repository.succeeds(*QUIETLY, name, fetched_notes(name))
    check(repository, tip, f"{name}/accepted")
    changed = repository.changed(repository.git("merge-base", "HEAD", tip), tip)
    judging = [each.path for each in changed if PROTECTION.judges(each.path)]
    if name != root or judging:
        more = f"{', '.join(judging[:6])} ({len(judging)} in all)" if judging else "no file"
        raise NotVouchedError(
            f"this clone has no accepted commit; {name}/accepted is at {tip[:12]}. Its code and pins would judge; they "
            f"differ from yours in {more}. If you trust {name}: git branch accepted {name}/accepted"
        )
    repository.move(ACCEPTED, tip, None, f"taken from {name}/accepted")
    return f"accepted starts at {name}/accepted, {tip[:12]}, whose judging files your branch contains"


def _followed(repository: Repository) -> str:
    """Return the remote of the branch that the current branch follows; "" if it follows none."""
    branch = repository.git("rev-parse", "--abbrev-ref", "HEAD")
    return repository.git("config", "--default=", "--get", f"branch.{branch}.remote")
