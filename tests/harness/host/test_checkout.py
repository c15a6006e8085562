"""Checkouts of one repository that are made and removed at the same time."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness.host import checkout
from harness.host.checkout import Checkout
from harness.host.repository import Repository


def test_checkouts_are_made_and_removed_side_by_side(tmp_path: Path) -> None:
    """git fails on a worktree that another process is just adding: 1 of 18 runs over SSH ended so."""
    source = tmp_path / "source"
    subprocess.run(["git", "init", "-q", source], check=True)
    (source / "file").write_text("text")
    (source / "program").write_text("text")
    (source / "program").chmod(0o755)
    subprocess.run(["git", "-C", source, "add", "."], check=True)
    name = ("-c", "user.name=x", "-c", "user.email=x")
    subprocess.run(["git", "-C", source, *name, "commit", "-qm", "x"], check=True)
    subprocess.run(["git", "clone", "-q", "--bare", source, tmp_path / "repo.git"], check=True)
    repository = Repository(tmp_path / "repo.git", plain=True)
    commit = repository.git("rev-parse", "HEAD")

    def use(made: Checkout) -> list[str]:
        made.make()
        found = list(made.differences())
        (made.folder / "file").write_text("other")
        found += made.differences()
        made.remove()
        return found

    with ThreadPoolExecutor(8) as beside:
        planned = [checkout.planned(repository, commit, tmp_path / str(n) / "tree") for n in range(24)]
        found = list(beside.map(use, planned))
    assert found == [["file differs from the commit"]] * 24
    assert len(repository.git("worktree", "list").splitlines()) == 1
