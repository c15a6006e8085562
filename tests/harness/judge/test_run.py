"""A real run of D1.1 on the emulated B200, in its own process, and its results."""

import base64
import html
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from PIL import Image

from emulator.clock.uncertainty import mean_error
from harness.host.job import KERNELS
from harness.host.verdict import Verdict
from harness.report.record import RECORD_NAME, RECORDINGS, Record, RecordError, load
from harness.tools.replay import differences, figures, replayed
from stages.metrics import METRICS
from stages.tolerances import pins
from tests.harness.conftest import Accepted
from tests.system import Checkout, make_checkout, program

OPTIONS = ("D1.1", "--device", "emulator", "--target", "sim", "--out")
RUN = (sys.executable, "-m", "harness.judge.run", *OPTIONS)
RECORD = (sys.executable, "-m", "harness.judge.record_calls", *OPTIONS)

CASES = ("hd=64 n=128", "hd=64 n=128 scale=0.3")
ONE_CASE = (
    '"""One case."""\n\nimport pytest\n\nfrom stages.case import Case\n\n'
    'CASES = (Case("D1.1", head_dim=64, keys=128),)\nSEEDS = (1,)\n\n\n'
)


@pytest.fixture(autouse=True)
def compiled_once(kernels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Share the cache of compiled kernels, so that only the first test compiles the unchanged kernel."""
    monkeypatch.setenv(KERNELS, str(kernels))


@dataclass(frozen=True)
class Run:
    """The output of `python -m harness stage D1.1`, and its folder of results."""

    checkout: Checkout
    output: str
    folder: Path
    record: Record


@pytest.fixture(scope="module")
def accepted(accepted_once: Accepted) -> Run:
    checkout, output = accepted_once.checkout, accepted_once.output
    (record,) = checkout.path.glob("results/2*/record.json")
    return Run(checkout, output, record.parent, load(record.parent))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, kernels: Path) -> Run:
    """Record D1.1 with one case."""
    folder = tmp_path_factory.mktemp("one")
    checkout = make_checkout(folder / "checkout")
    (checkout.path / "stages/d1_1.py").write_text(ONE_CASE)
    pinned = checkout.path / "stages/cycles.toml"
    pinned.write_text(re.sub(r'("D1.1" = \[\d+).*', r"\1]", pinned.read_text()))
    checkout.git("commit", "--all", "--quiet", "--message", "One case")
    done = subprocess.run(
        [*RECORD, str(folder / "recorded")],
        cwd=checkout.path,
        env=os.environ | {KERNELS: str(kernels)},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return Run(checkout, done.stdout, folder / "recorded", load(folder / "recorded"))


@pytest.fixture
def one_case(recorded: Run) -> Iterator[Run]:
    """Provide the recording to a test that may change what judges it."""
    yield recorded
    recorded.checkout.git("checkout", "--quiet", ".")


def judged(recorded: Run, out: Path) -> tuple[int, Record]:
    """Judge the recordings in a run's folder, as the supervisor does."""
    command = judging(recorded, out)
    done = subprocess.run(command, cwd=recorded.checkout.path, capture_output=True, text=True, timeout=600)
    return done.returncode, load(out)


def judging(recorded: Run, out: Path) -> list[str]:
    """Copy a run's recordings to `out`, and return the command that judges them."""
    shutil.copytree(recorded.folder / RECORDINGS, out / RECORDINGS)
    shutil.copy2(recorded.folder / RECORD_NAME, out)
    return [*RUN, str(out), "--seed", "7", "--commit", recorded.record.tree.commit]


def test_the_kernel_is_accepted(accepted: Run) -> None:
    assert accepted.record.verdict == Verdict.ACCEPT.name
    assert "D1.1 ACCEPT  gate and stage hold" in accepted.output
    assert f"{accepted.folder}/report.html\n" in accepted.output


def test_a_replay_of_its_recordings_gives_the_same_figures(accepted: Run) -> None:
    """No kernel is compiled, and one changed figure is named."""
    before = figures(accepted.record)
    after = figures(replayed(accepted.folder, accepted.record))
    assert len(before) > 40 and not list(differences(before, after))
    name = "hd=64 n=128 seed=1 O.diff"
    changed = before | {name: (before[name] or 0.0) * (1 + 2**-52)}
    (said,) = differences(changed, after)
    assert said.startswith(f"{name}: recorded ")


def test_the_accepted_kernel_is_launched_again_with_the_seeds_of_a_candidate(accepted: Run) -> None:
    again = [sys.executable, "-m", "harness.judge.again", *OPTIONS[:3], "--out", str(accepted.folder)]
    done = subprocess.run(
        [*again, "--case", CASES[0], "--seeds", "7", "8"], capture_output=True, text=True, timeout=600
    )
    assert (done.returncode, done.stdout) == (0, f"the accepted kernel, D1.1 {CASES[0]}: within all bounds\n"), done


def test_three_pinned_seeds_ran_once_and_a_fresh_one_in_every_mode(accepted: Run) -> None:
    cases = [case for case in accepted.record.cases if case.seed is not None]
    for name in CASES:
        own = [case for case in cases if case.name == name]
        assert [case.seed for case in own[:3]] == [1, 2, 3]
        assert [case.fresh for case in own] == [False, False, False, True]
    for case in cases:
        assert [launch.mode for launch in case.launches] == ["eager", "lazy", "random"][: 3 if case.fresh else 1]


def test_every_metric_is_recorded_beside_its_pin(accepted: Run) -> None:
    held = pins("D1.1")
    for case in accepted.record.cases:
        if case.seed is not None:
            recorded = {(figure.tensor, figure.metric): figure.pin for figure in case.figures}
            assert recorded == {(t, metric.name): held[t][metric.name] for t in METRICS for metric in METRICS[t]}
            assert all(figure.holds and figure.value is not None for figure in case.figures)


def test_the_negative_controls_were_refused_in_the_run(accepted: Run) -> None:
    assert len(accepted.record.negative_controls) > 20
    assert all(each.refused and each.by for each in accepted.record.negative_controls)


def test_the_record_says_what_ran(accepted: Run) -> None:
    assert accepted.record.run == accepted.folder.name
    assert accepted.record.tree.commit == accepted.checkout.git("rev-parse", "HEAD").strip()
    assert accepted.record.tree.changed == []
    assert accepted.record.toolchain["nvidia-cutlass-dsl"] != "none"
    assert [(phase.name, phase.outcome) for phase in accepted.record.phases] == [
        ("compile", "passed"),
        ("stage", "passed"),
        ("clock", "passed"),
    ]


def test_ptx_and_layouts_lie_beside_the_record(accepted: Run) -> None:
    (compiled,) = accepted.record.compiles
    ptx, layouts = ((accepted.folder / name).read_text() for name in compiled.files)
    assert ".target sm_100a" in ptx and "tcgen05.mma" in ptx
    assert "tStS" in layouts


def test_what_the_clock_predicts_is_recorded_and_shown(accepted: Run) -> None:
    said = accepted.record.prediction
    assert said is not None and said.case == CASES[0] and said.holds and 3 < said.seconds * 1e6 < 30
    assert f"predicted, not measured: {said}" in accepted.output
    assert [role.name for role in said.roles] == [
        "softmax: warps 0, 1, 2, 3",
        "mma: warp 4",
        "load: warp 5",
        "values: warp 6",
        "queries: warp 7",
    ]
    waits = {(wait.what, wait.where.split(":")[0]) for role in said.roles for wait in role.waits}
    assert {where for what, where in waits if what == "p_full[0]"} <= {
        "kernel/device/barriers.py",
        "kernel/sm100/mma.py",
    }
    assert Image.open(accepted.folder / said.picture).width == 900
    for page in ("report.html", "page.html"):
        assert html.escape(str(said)) in (accepted.folder / page).read_text()


@pytest.mark.long
def test_a_kernel_slower_than_its_pin_is_refused_by_name(one_case: Run, tmp_path: Path) -> None:
    pinned = one_case.checkout.path / "stages/cycles.toml"
    pinned.write_text(re.sub(r'"D1.1" = \[\d+', '"D1.1" = [5000', pinned.read_text()))
    code, record = judged(one_case, tmp_path / "out")
    assert code == Verdict.REJECT_GATE.exit_code
    most = 5000 * (1 + mean_error("b200"))
    assert f" cycles (at most {most:,.0f}), " in record.reason
    assert record.reason.startswith("slower: D1.1 hd=64 n=128 on the B200: ")
    assert all(case.outcome == "passed" for case in record.cases)


def test_the_working_tree_is_as_it_was_until_the_notes_are_asked_for(accepted: Run, tmp_path: Path) -> None:
    assert accepted.checkout.git("status", "--porcelain") == ""
    checkout = accepted.checkout.copied(tmp_path / "copy")
    notes = [sys.executable, "-m", "harness", "notes"]
    subprocess.run(notes, cwd=checkout.path, check=True, capture_output=True, timeout=600)
    assert checkout.git("status", "--porcelain") == " M STAGE_NOTES.md\n"
    cosine = accepted.record.worst("O", "cosine")
    row = f"| D1.1 | sim | {accepted.record.tree} | {cosine:.7f} |"
    assert row in (checkout.path / "STAGE_NOTES.md").read_text()


def test_the_report_is_named(accepted: Run) -> None:
    command = [sys.executable, "-m", "harness", "report"]
    done = subprocess.run(command, cwd=accepted.checkout.path, capture_output=True, text=True, timeout=600)
    assert done.stdout == f"{accepted.folder}/report.html\n"


def test_the_report_stands_alone(accepted: Run) -> None:
    text = (accepted.folder / "report.html").read_text()
    assert '<strong class="ACCEPT">ACCEPT</strong>' in text
    fetched = re.findall(r"""(?:src|href)=["']([^"']+)""", re.sub(r"data-jsonblob=\"[^\"]*\"", "", text))
    assert not [name for name in fetched if name.startswith(("http", "//"))]


@pytest.mark.browser
def test_a_browser_shows_figures_and_pictures(accepted: Run) -> None:
    browser = program("browser")
    assert browser
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom"]
    report = (accepted.folder / "report.html").as_uri()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # tmp_path is too long for its socket
        env = os.environ | {"TMPDIR": folder}
        page = subprocess.run(
            [*command, report], capture_output=True, text=True, timeout=600, check=True, env=env
        ).stdout
    heads = [html.unescape(re.sub("<.*?>", "", head)).strip() for head in re.findall("<th .*?</th>", page, re.S)]
    assert heads[:7] == ["Result", "Test", "cosine", "lse error", "z", "z of a key", "seconds"]
    for case in accepted.record.cases:
        assert f">{case.label}</td>" in page
        for figure in case.figures:
            assert f"<td>{figure.shown}</td>" in page
    pictures = re.findall(r'<img alt="map of the error" src="data:image/png;base64,([^"]*)"', page)
    assert len(pictures) == len(CASES), "where all seeds of a case pass one picture shows them"
    for picture in pictures:
        image = Image.open(io.BytesIO(base64.b64decode(picture)))
        colours = image.convert("RGB").getcolors(1 << 20)
        assert image.width > 600 and colours is not None and len(colours) > 100


@pytest.mark.long
def test_a_killed_run_leaves_what_it_had(one_case: Run, tmp_path: Path) -> None:
    command = judging(one_case, tmp_path)
    process = subprocess.Popen(command, cwd=one_case.checkout.path, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline and not passed_cases(tmp_path):
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.01)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    record = load(tmp_path)
    assert passed_cases(tmp_path) and record.cases[0].figures
    assert record.verdict == "" and record.phases[-1].outcome == "running"


def passed_cases(folder: Path) -> list[str]:
    """Return the cases that passed so far."""
    try:
        return [case.label for case in load(folder).cases if case.outcome == "passed"]
    except RecordError:
        return []


@pytest.mark.long
def test_a_kernel_that_is_wrong_for_more_keys_than_the_gates_is_refused_by_the_gate(
    one_case: Run, tmp_path: Path
) -> None:
    """D1.5's case has 200 keys, and the gate's have 128. D1.2's do as well, and take ten times as long."""
    right = '"scale_log2": scale *'
    wrong = '"scale_log2": (1.1 if head_dim == 64 and keys > 128 else 1.0) * scale *'
    one_case.checkout.replace("kernel/host.py", right, wrong)
    code, record = run(one_case.checkout, tmp_path / "out", "--beside", "D1.5")
    assert code == Verdict.REJECT_GATE.exit_code
    assert re.fullmatch(r"failed: D1\.5 hd=64 n=200 H=64 seed=\d+ \(fresh\)", record.reason)
    assert [case.outcome for case in record.cases] == ["passed"] * 3 + ["failed"]


def run(checkout: Checkout, out: Path, *more: str) -> tuple[int, Record]:
    done = subprocess.run([*RUN, str(out), *more], cwd=checkout.path, capture_output=True, text=True, timeout=600)
    return done.returncode, load(out)


@pytest.mark.long
def test_a_kernel_that_is_no_python_is_refused(checkout: Checkout, tmp_path: Path) -> None:
    (checkout.path / "kernel/fmha.py").write_text("def (:\n")
    run_id = "20261121-093012-D1.2-ab12cd"
    code, record = run(checkout, tmp_path / run_id / "gate")
    assert record.run == run_id
    assert (code, record.verdict) == (Verdict.COMPILE_ERROR.exit_code, Verdict.COMPILE_ERROR.name)
    assert record.reason.startswith("kernel/fmha.py:1: SyntaxError: ")
    assert record.phases[-1].outcome == "failed" and not record.cases


NOTHING = '"""Nothing."""\n\nCASES = ()\nSEEDS = (1,)\n\n\n'


@pytest.mark.long
@pytest.mark.parametrize(
    ("module", "verdict"),
    [
        (NOTHING, Verdict.INFRA),
        (NOTHING + "def test_own() -> None:\n    pass\n", Verdict.INFRA),
        (ONE_CASE + "def test_own(recorder) -> None:\n    pytest.skip('not today')\n", Verdict.REJECT_GATE),
        (ONE_CASE + "@pytest.mark.xfail\ndef test_own(recorder) -> None:\n    assert False\n", Verdict.REJECT_GATE),
    ],
    ids=["no case", "a test that measures nothing", "a skipped test", "a test expected to fail"],
)
def test_a_module_that_verifies_nothing_is_not_passed(
    one_case: Run, tmp_path: Path, module: str, verdict: Verdict
) -> None:
    (one_case.checkout.path / "stages/d1_1.py").write_text(module)
    code, record = judged(one_case, tmp_path / "out")
    assert (code, record.verdict) == (verdict.exit_code, verdict.name), json.dumps(record.reason)
