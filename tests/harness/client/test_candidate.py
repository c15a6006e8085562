"""Candidate, pins and acceptance on real repositories. The user's files and index are compared byte by byte."""

import os
import subprocess

import pytest

from harness.client import acceptance, candidate, vouched
from harness.client.acceptance import StaleBase
from harness.client.candidate import Candidate, CandidateError
from harness.host import protected
from harness.host.protected import ProtectedError, Unpin
from harness.host.repository import ACCEPTED, GitError, Repository
from harness.host.ruling import Ruling, RulingError, decode
from harness.host.subject import Subject
from harness.host.verdict import Verdict
from tests.tiers import shortened


def ruling_for(made: Candidate, base: str, run: str = "r1", verdict: Verdict = Verdict.ACCEPT) -> Ruling:
    about = Subject(run=run, commit=made.commit, base=base, milestones=["D1.1"], target="sim", user="ada", pins="p")
    return Ruling(about, verdict, "", "stage", "t0", "t1")


def repository(project):
    return Repository(project.path)


def test_candidate_is_the_working_tree_and_touches_nothing(project):
    project.kernel(cosine=0.5)
    project.write("kernel/new.py", "NEW = 1\n")
    project.write("notes.txt", "untracked elsewhere\n")
    project.write("kernel/scratch.log", "ignored\n")
    project.write("STAGE_NOTES.md", "# Staged\n")
    project.git("add", "STAGE_NOTES.md")
    project.write("STAGE_NOTES.md", "# Edited after staging\n")
    before = project.state()
    made = candidate.make(repository(project), "r1", "D1.1")
    assert project.state() == before
    assert made.left_out == ("notes.txt",)
    assert project.git("show", f"{made.commit}:kernel/new.py") == "NEW = 1"
    assert project.git("show", f"{made.commit}:STAGE_NOTES.md") == "# Edited after staging"
    assert "scratch.log" not in project.git("ls-tree", "-r", made.commit)
    assert project.git("rev-parse", made.ref) == made.commit
    assert project.git("rev-parse", f"{made.commit}^") == made.parent == before["tip"]


def test_assume_unchanged_edit_is_seen(project):
    project.git("update-index", "--assume-unchanged", "kernel/fmha.py", "stages/tolerances.toml")
    project.kernel(cosine=0.1)
    project.write("stages/tolerances.toml", "cosine = 0.0\n")
    assert project.git("status", "--porcelain") == ""
    before = project.state()
    made = candidate.make(repository(project), "r1", "D1.1")
    assert "0.1" in project.git("show", f"{made.commit}:kernel/fmha.py")
    with pytest.raises(ProtectedError, match=r"stages/tolerances\.toml"):
        protected.check(repository(project), made.parent, made.commit, Unpin())
    assert project.state() == before


def put(project, name, data):
    with open(os.fsencode(project.path) + b"/" + name, "wb") as stream:
        stream.write(data)


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        (b"kernel/caf\xe9.py", b"", r"kernel/caf\\xe9.py: the name is not UTF-8; rename it"),
        (b"kernel/.gitattributes", b"*.py eol=crlf\n", r"kernel/fmha.py \(eol=crlf\), .*remove these attributes"),
        (b"kernel/.gitattributes", b"fmha.py ident\n", r"kernel/fmha.py \(ident=set\): a checkout would have"),
        (b"kernel/fmha.py", b"<<<<<<< mine\n1\n=======\n2\n>>>>>>> theirs\n", "kernel/fmha.py: conflict markers"),
        (b"kernel/fmha.py", b"def gemm():\n    return (1\n", "kernel/fmha.py:2:14: invalid-syntax: "),
        (b"kernel/fmha.py", b"def gemm():\n    return tOrP\n", "kernel/fmha.py:2:12: F821 Undefined name `tOrP`"),
        (
            b"kernel/fmha.py",
            b"from kernel.devise import gemm\n",
            "kernel/fmha.py:1: there is no module kernel.devise",
        ),
    ],
    ids=["name", "crlf", "ident", "markers", "syntax", "undefined", "import"],
)
def test_files_that_no_host_can_check_out_are_named_first(project, name, data, said):
    put(project, name, data)
    project.git("add", "--all")
    with pytest.raises(CandidateError, match=said):
        candidate.make(repository(project), "r1", "D1.1")
    assert not project.git("for-each-ref", "refs/candidates")
    project.git("commit", "--quiet", "-m", "it is committed")
    if name != b"kernel/fmha.py":  # what was accepted so is nobody's mistake now
        with pytest.raises(CandidateError, match=said):
            candidate.make(repository(project), "r1", "D1.1")


def test_attributes_that_change_nothing_and_markers_that_were_accepted_are_allowed(project):
    put(project, b".gitattributes", b"*.py text eol=lf\n*.bin -text eol=crlf\n# ident\n")
    put(project, b"kernel/merge.txt", b"<<<<<<< mine\n>>>>>>> theirs\n")
    project.git("add", "--all")
    project.git("commit", "--quiet", "-m", "both")
    project.git("update-ref", ACCEPTED, "HEAD")
    assert candidate.make(repository(project), "r1", "D1.1").commit


def test_unchanged_tree_is_the_tip_itself(project):
    made = candidate.make(repository(project), "r1", "D1.1")
    assert made.commit == made.parent


def test_git_variables_of_a_hook_do_not_lead_astray(project, tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    made = candidate.make(repository(project), "r1", "D1.1")
    assert made.branch == "refs/heads/work"
    assert not (tmp_path / "index").exists()


def test_deleted_file_and_odd_names(project):
    project.write("kernel/with space ü\n.py", "X = 1\n")
    (project.path / "STAGE_NOTES.md").unlink()
    made = candidate.make(repository(project), "r1", "D1.1")
    names = project.git("ls-tree", "-r", "-z", "--name-only", made.commit).split("\0")
    assert "kernel/with space ü\n.py" in names and "STAGE_NOTES.md" not in names
    assert protected.check(repository(project), made.parent, made.commit, Unpin())


@pytest.mark.parametrize(
    ("spoil", "fix"),
    [
        (lambda p: p.git("switch", "--detach", "--quiet"), "git switch -c"),
        (lambda p: p.git("switch", "--quiet", "-c", "accepted"), "only the harness may move it"),
        (lambda p: p.git("switch", "--quiet", "--orphan", "empty"), "make one first"),
        (lambda p: p.git("sparse-checkout", "set", "kernel"), "git sparse-checkout disable"),
    ],
)
def test_states_without_a_candidate(project, spoil, fix):
    spoil(project)
    with pytest.raises(CandidateError, match=fix):
        candidate.make(repository(project), "r1", "D1.1")


def test_not_a_repository(tmp_path):
    with pytest.raises(CandidateError, match="run the command in a clone"):
        candidate.find(tmp_path)


def test_missing_git(project, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(CandidateError, match="git is not installed"):
        candidate.find(project.path)


@pytest.mark.parametrize(
    "path",
    [
        "stages/tolerances.toml",
        "kernel/reference.py",
        "harness/host/verdict.py",
        "requirements.lock",
        ".gitignore",
    ],
)
def test_pinned_path_is_refused_by_name_unless_unpinned(project, path):
    project.write(path, (project.path / path).read_text() + "# edited\n")
    made = candidate.make(repository(project), "r1", "D1.1")
    with pytest.raises(ProtectedError, match=path.replace(".", r"\.")) as caught:
        protected.check(repository(project), made.parent, made.commit, Unpin())
    assert f"--unpin {path}" in str(caught.value)
    digest = protected.check(repository(project), made.parent, made.commit, Unpin((path,), "measured anew"))
    assert digest != protected.PROTECTION.digest(repository(project).tree(made.parent))


def test_the_rules_are_those_of_the_base(project):
    """An edit of the list of protected paths decides about later changes, not about itself."""
    rules = (project.path / protected.FILE).read_text()
    project.write(protected.FILE, rules.replace('("kernel", "STAGE_NOTES.md")', '("kernel", "stages", "harness")'))
    project.write("stages/tolerances.toml", "# edited\n")
    made = candidate.make(repository(project), "r1", "D1.1")
    assert not protected.rules(repository(project), made.commit).covers("stages/tolerances.toml")
    with pytest.raises(ProtectedError, match=r"harness/host/protected\.py, stages/tolerances\.toml"):
        protected.check(repository(project), made.parent, made.commit, Unpin())


def test_new_conftest_inside_the_kernel_is_pinned(project):
    project.write("kernel/conftest.py", "raise SystemExit(0)\n")
    made = candidate.make(repository(project), "r1", "D1.1")
    with pytest.raises(ProtectedError, match=r"kernel/conftest\.py"):
        protected.check(repository(project), made.parent, made.commit, Unpin())


def test_symbolic_link_is_refused(project):
    os.symlink("/etc/passwd", project.path / "kernel/link.py")
    made = candidate.make(repository(project), "r1", "D1.1")
    with pytest.raises(ProtectedError, match="symbolic links"):
        protected.check(repository(project), made.parent, made.commit, Unpin())


def test_unpin_needs_a_reason_and_a_use(project):
    with pytest.raises(ProtectedError, match="--because"):
        Unpin(("stages",))
    project.kernel(cosine=1.0)
    made = candidate.make(repository(project), "r1", "D1.1")
    with pytest.raises(ProtectedError, match="omit it"):
        protected.check(repository(project), made.parent, made.commit, Unpin(("stages",), "no need"))


def test_first_accept_creates_accepted_and_brings_the_branch(project):
    project.kernel(cosine=1.0)
    project.write("kernel/new.py", "NEW = 1\n")
    made = candidate.make(repository(project), "r1", "D1.1")
    files = project.state()["files"]
    done = acceptance.accept(repository(project), made, ruling_for(made, ""))
    assert done.branch_moved, done.why_not
    assert project.git("rev-parse", "accepted", "work") == f"{made.commit}\n{made.commit}"
    assert project.git("status", "--porcelain") == ""
    assert project.state()["files"] == files
    assert acceptance.accepted_milestones(repository(project)) == {"D1.1": ["sim"]}
    after = project.state()
    assert acceptance.accept(repository(project), made, ruling_for(made, "")).branch_moved
    assert project.state() == after
    assert len(vouched.notes(repository(project), made.commit)) == 1


@pytest.mark.parametrize(
    ("spoil", "why"),
    shortened(
        3,
        [
            (lambda p: p.kernel(cosine=0.2), "changed since"),
            (lambda p: p.write("kernel/another.py", "x = 1\n"), "changed since"),
            (lambda p: p.git("commit", "--quiet", "--allow-empty", "-m", "on"), "it moved since"),
            (lambda p: p.git("switch", "--quiet", "-c", "other"), "another branch"),
            (lambda p: p.git("update-index", "--assume-unchanged", "kernel/fmha.py"), "assume-unchanged"),
            (lambda p: (p.write("x.txt", "x"), p.git("add", "x.txt")), "staged"),
            (lambda p: p.git("update-ref", "MERGE_HEAD", "HEAD"), "merge"),
        ],
    ),
)
def test_accept_leaves_an_unsafe_branch_alone(project, spoil, why):
    project.kernel(cosine=1.0)
    made = candidate.make(repository(project), "r1", "D1.1")
    spoil(project)
    before = project.state()
    done = acceptance.accept(repository(project), made, ruling_for(made, ""))
    assert not done.branch_moved and why in done.why_not
    assert project.state() == before
    assert project.git("rev-parse", "accepted") == made.commit


def test_second_candidate_on_one_base_is_stale_then_merged(project):
    repo = repository(project)
    project.kernel(cosine=1.0)
    first = candidate.make(repo, "r1", "D1.1")
    project.git("checkout", "--quiet", "--", "kernel/fmha.py")
    project.write("kernel/second.py", "SECOND = 2\n")
    second = candidate.make(repo, "r2", "D1.1")
    acceptance.accept(repo, first, ruling_for(first, ""))
    before = project.state()
    with pytest.raises(StaleBase):
        acceptance.accept(repo, second, ruling_for(second, "", "r2"))
    assert project.git("rev-parse", "accepted") == first.commit
    merged = candidate.on_new_base(repo, "r3", second, first.commit)
    assert repo.is_ancestor(first.commit, merged.commit) and repo.is_ancestor(second.commit, merged.commit)
    assert "1.0" in project.git("show", f"{merged.commit}:kernel/fmha.py")
    done = acceptance.accept(repo, merged, ruling_for(merged, first.commit, "r3"))
    assert not done.branch_moved and "git merge accepted" in done.why_not
    assert project.state() == before


def test_conflicting_change_on_a_new_base_says_how_to_go_on(project):
    repo = repository(project)
    project.kernel(cosine=1.0)
    first = candidate.make(repo, "r1", "D1.1")
    project.kernel(cosine=2.0)
    second = candidate.make(repo, "r2", "D1.1")
    acceptance.accept(repo, first, ruling_for(first, ""))
    with pytest.raises(CandidateError, match="git merge accepted"):
        candidate.on_new_base(repo, "r3", second, first.commit)


def test_share_refused_leaves_accepted(project):
    made = candidate.make(repository(project), "r1", "D1.1")

    def refuse() -> None:
        raise StaleBase("others were first")

    with pytest.raises(StaleBase):
        acceptance.accept(repository(project), made, ruling_for(made, ""), refuse)
    assert repository(project).resolve(ACCEPTED) is None


def test_only_an_accepting_ruling_on_this_commit_accepts(project):
    project.kernel(cosine=1.0)
    made = candidate.make(repository(project), "r1", "D1.1")
    for verdict in set(Verdict) - {Verdict.ACCEPT}:
        with pytest.raises(ValueError, match=verdict.name):
            acceptance.accept(repository(project), made, ruling_for(made, "", verdict=verdict))
    assert repository(project).resolve(ACCEPTED) is None


def test_interrupted_move_keeps_the_ref(project):
    repo = repository(project)
    project.kernel(cosine=1.0)
    made = candidate.make(repo, "r1", "D1.1")
    with pytest.raises(KeyboardInterrupt), repo.prepared_move(made.branch, made.commit, made.parent, "x"):
        raise KeyboardInterrupt
    assert project.git("rev-parse", "work") == made.parent
    with pytest.raises(GitError), repo.prepared_move(made.branch, made.commit, made.commit, "x"):
        pass
    assert project.git("rev-parse", "work") == made.parent


def test_author_is_named_where_none_is_configured(project, monkeypatch):
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    project.git("config", "--unset", "user.name")
    project.git("config", "--unset", "user.email")
    project.kernel(cosine=1.0)
    made = candidate.make(repository(project), "r1", "D1.1")
    author = subprocess.run(
        ["git", "-C", str(project.path), "show", "-s", "--format=%an", made.commit],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    assert author == candidate.user_name()


def test_ruling_is_bound_to_run_and_commit():
    made = Candidate("ref", "c" * 40, "t", "p", "b")
    data = ruling_for(made, "").encode()
    assert decode(data, "r1", "c" * 40) == ruling_for(made, "")
    for run, commit in (("r2", "c" * 40), ("r1", "d" * 40)):
        with pytest.raises(RulingError):
            decode(data, run, commit)
    for damaged in (
        b"",
        data[:-20],
        b"[]",
        b"{}",
        b"\xff",
        data.replace(b"ACCEPT", b"PERFECT"),
        b"[" * 100_000,
    ):
        with pytest.raises(RulingError):
            decode(damaged, "r1", "c" * 40)


def test_exit_codes_differ():
    codes = [verdict.exit_code for verdict in Verdict]
    assert len(set(codes)) == len(codes) and not {1, 2} & set(codes)
