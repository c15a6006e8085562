"""Arbitrary data from a host or a run: it is rejected or shown, and has no other effect."""

import hashlib
import io
import json
import tarfile
from contextlib import suppress
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.client import watch
from harness.client.host import Host
from harness.client.results import bring_in, check_path
from harness.client.run_store import Entry
from harness.host import evidence
from harness.host.job import JobError, check_run_id
from harness.host.job import decode as decode_job
from harness.host.ruling import ResultFile, Ruling, RulingError, decode
from harness.host.subject import Subject
from harness.host.verdict import Verdict
from remote.errors import LinkLost, Untrusted
from remote.local import LocalLink

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
ABOUT = Subject(run="r", commit="c", base="b", milestones=["D1.1"], target="sim", user="ada", pins="p")
GOOD = Ruling(ABOUT, Verdict.ACCEPT, "", "gate", "t", "t")
FIELDS = sorted(json.loads(GOOD.encode()))


@given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_as_verdict_file(data):
    with pytest.raises(RulingError):
        decode(data, "r", "c")


@given(st.sampled_from(FIELDS), JSON)
def test_any_value_in_a_verdict_file(name, value):
    fields = json.loads(GOOD.encode()) | {name: value}
    with suppress(RulingError):
        assert (decode(json.dumps(fields).encode(), "r", "c").subject.run, ABOUT.commit) == ("r", "c")


@given(st.sampled_from(sorted(json.loads(GOOD.encode())["subject"])), JSON)
def test_any_value_in_the_subject_of_a_verdict_file(name, value):
    fields = json.loads(GOOD.encode())
    fields["subject"] |= {name: value}
    with suppress(RulingError):
        found = decode(json.dumps(fields).encode(), "r", "c").subject
        assert isinstance(getattr(found, name), list if name in ("milestones", "unpinned", "rejected") else str)


@given(JSON)
def test_any_json_as_job(value):
    with pytest.raises(JobError):
        decode_job(json.dumps(value))


@given(st.text(max_size=300))
def test_any_text_as_result_path(path):
    with suppress(Untrusted):
        check_path(path)
        assert (Path("/results") / path).resolve().is_relative_to("/results")
        assert path.isprintable() and not path.startswith(".git/")


@given(st.text(max_size=60))
def test_any_text_as_run_id(text):
    with suppress(JobError):
        assert "/" not in check_run_id(text) and text.isascii()


@given(st.dictionaries(st.sampled_from(["phases", "cases", "compiles", "reason", "tree"]), JSON))
def test_any_json_as_record_of_a_run(tmp_path_factory, record):
    folder = tmp_path_factory.mktemp("record")
    (folder / "record.json").write_text(json.dumps(record))
    for line in evidence.RecordWatch(folder, 1.0, dict).look_again():
        assert line.isprintable() and len(line) <= 160


class Screen:
    def say(self, text):
        assert text.isprintable()

    doing = say


EVENTS = st.sampled_from(["waiting", "phase", "news", "ended", "broken", "other"])
KEYS = st.sampled_from(["name", "seconds", "code", "text", "why", "owner", "since", "run"])
SAID = st.fixed_dictionaries(
    {},
    optional={
        "event": JSON | st.tuples(EVENTS, st.dictionaries(KEYS, JSON)).map(lambda pair: {**pair[1], "event": pair[0]}),
        "beat": JSON | st.dictionaries(st.sampled_from(["phase", "seconds", "last"]), JSON),
        "age_s": JSON,
        "offset": JSON,
        "ended": JSON,
        "dead": JSON,
    },
)


@given(st.lists(SAID, max_size=4))
def test_any_json_as_progress(said):
    class Says:
        def follow(self, run, offset):
            return iter(said)

    class Known:
        run, subject = "r", ABOUT

    with suppress(LinkLost, watch.Gone):
        watch.watch(cast(Entry, Known()), cast(Host, Says()), Screen(), lambda offset: None, 0)


@pytest.mark.browser
def test_a_browser_runs_no_file_of_a_host(opened, tmp_path):
    page = b"<!doctype html><html xmlns='http://www.w3.org/1999/xhtml'><body><script>document.title='ran'</script>"
    page += b"</body></html>"
    drawing = b"<svg xmlns='http://www.w3.org/2000/svg'><script>document.title='ran'</script></svg>"
    names = ["y", *(f"x{kind}" for kind in (*evidence.KINDS, ".html", ".xhtml", ".svg", ".htm", ".mht", ".PTX"))]
    contents = {name: drawing if name.endswith(".svg") else page for name in names}
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, data in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    sent = tmp_path / "sent.tar"
    sent.write_bytes(packed.getvalue())
    kept = {name: ResultFile(len(data), hashlib.sha256(data).hexdigest()) for name, data in contents.items()}
    into = tmp_path / "into"
    into.mkdir()
    stream = LocalLink().open(["cat", str(sent)])
    bring_in(stream, kept, into)
    stream.close()
    plain = tmp_path / "plain.html"
    plain.write_bytes(page)
    opened.open(plain)
    assert opened.ask("document.title") == "ran"
    brought = sorted(into.iterdir())
    assert len(brought) == len(contents)
    for path in brought:
        opened.open(path)
        assert opened.ask("document.title") != "ran", path.name
