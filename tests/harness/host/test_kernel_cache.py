"""The cache of compiled kernels takes entries of accepted runs only, under the sources that the supervisor hashed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.host.job import Workplace
from harness.host.kernel_cache import KernelCache
from harness.host.repository import TreeEntry
from harness.host.subject import Subject

KEY = "ab" * 32


def cache(place: Workplace, blob: str = "1" * 40) -> KernelCache:
    """Return the cache of a commit whose kernel has one file."""
    run = "20261121-093012-D1.1-ab12cd"
    subject = Subject(run=run, commit=blob, milestones=["D1.1"], target="sim", user="ada", pins="")
    entries = (TreeEntry("100644", blob, "kernel/fmha.py"), TreeEntry("100644", blob, "stages/case.py"))
    return KernelCache(place, subject, entries)


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path)


def test_an_accepted_run_leaves_its_entries_with_their_provenance(place: Workplace) -> None:
    mine = cache(place)
    mine.prepare()
    (mine.written_to / KEY).write_bytes(b"compiled")
    (mine.written_to / "notes.txt").write_bytes(b"no entry")
    assert mine.take({KEY, "notes.txt"}) == 1
    assert (mine.read_from / KEY).read_bytes() == b"compiled"
    said = json.loads((mine.read_from / f"{KEY}.json").read_bytes())
    assert (said["run"], said["commit"], said["source"]) == (mine.subject.run, mine.subject.commit, mine.source)
    mine.prepare()
    assert (mine.read_from / KEY).exists()


def test_other_sources_have_another_folder(place: Workplace) -> None:
    assert cache(place).read_from != cache(place, "2" * 40).read_from


def test_entries_without_or_against_their_provenance_are_removed(place: Workplace) -> None:
    """Such as one that a candidate copied under the sources of another."""
    mine = cache(place)
    mine.prepare()
    (mine.written_to / KEY).write_bytes(b"compiled")
    mine.take({KEY})
    (mine.read_from / KEY).write_bytes(b"poisoned")
    (mine.read_from / ("cd" * 32)).write_bytes(b"poisoned")
    mine.prepare()
    assert sorted(path.name for path in mine.read_from.iterdir()) == [f"{KEY}.json"]


def test_links_and_large_names_are_not_taken(place: Workplace, tmp_path: Path) -> None:
    mine = cache(place)
    mine.prepare()
    (tmp_path / "secret").write_text("secret")
    (mine.written_to / KEY).symlink_to(tmp_path / "secret")
    assert mine.take({KEY}) == 0


def test_entries_of_a_run_that_still_records_are_not_taken(place: Workplace) -> None:
    mine = cache(place)
    mine.prepare()
    for key in (KEY, "cd" * 32):
        (mine.written_to / key).write_bytes(b"compiled")
    assert mine.take({KEY}) == 1
    assert not (mine.read_from / ("cd" * 32)).exists()
