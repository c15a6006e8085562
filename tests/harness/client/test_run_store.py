"""The accepted runs with which the page of a rejected run compares."""

from dataclasses import replace
from pathlib import Path

from harness.client.candidate import Candidate
from harness.client.run_store import Entry, RunStore
from harness.host.subject import Subject
from harness.report.record import Record, Tree


def stored(
    store: RunStore, name: str, verdict: str, milestones: list[str], target: str = "sim", base: str = ""
) -> Entry:
    """Store a run of a commit whose id consists of the letter `name`; later letters are later runs."""
    run = f"20261120-10000{ord(name) - ord('a')}-D1.1-{name * 6}"
    about = Subject(run=run, commit=name * 40, milestones=milestones, target=target, user="ada", pins="", base=base)
    entry = Entry(about, Candidate("", name * 40, "", "", ""), f"2026-11-20T10:00:0{ord(name) - ord('a')}Z")
    entry.verdict = verdict
    store.save(entry)
    for milestone in milestones:
        folder = store.folder(run) / ("." if len(milestones) == 1 else milestone)
        folder.mkdir(exist_ok=True)
        Record(run, milestone, target, entry.started, Tree(name * 40, [])).save(folder)
    return entry


def test_the_base_comes_before_newer_runs(tmp_path: Path) -> None:
    """Later runs, rejected ones, and those on other targets are no base."""
    store = RunStore(tmp_path)
    base = stored(store, "a", "ACCEPT", ["D1.1", "D1.2"])
    newer = stored(store, "b", "ACCEPT", ["D1.1"])
    stored(store, "c", "REJECT_STAGE", ["D1.1"])
    stored(store, "d", "ACCEPT", ["D1.1"], target="b200")
    rejected = stored(store, "e", "REJECT_GATE", ["D1.1"], base="a" * 40)
    stored(store, "f", "ACCEPT", ["D1.1"])
    folders = {milestone: store.folder(base.run) / milestone for milestone in ("D1.1", "D1.2")}
    assert store.accepted_before(rejected) == folders
    elsewhere = Entry(replace(rejected.subject, base="0" * 40), rejected.candidate, rejected.started)
    assert store.accepted_before(elsewhere)["D1.1"].resolve() == store.folder(newer.run)


def test_the_last_digits_name_a_run_if_only_one_has_them(tmp_path: Path) -> None:
    store = RunStore(tmp_path)
    run = stored(store, "a", "ACCEPT", ["D1.1"]).run
    assert store.find("aaa").run == store.full("aaaaaa") == run
    assert [store.full(text) for text in ("aa", "bbb", "*aa")] == ["aa", "bbb", "*aa"]
    again = store.folder(run).with_name(run.replace("D1.1", "D1.2"))
    store.folder(run).rename(again)
    stored(store, "a", "ACCEPT", ["D1.1"])
    assert store.full("aaa") == "aaa", "two runs have them"
