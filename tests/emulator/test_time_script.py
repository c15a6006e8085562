"""`python -m emulator time`: predictions of a script's launches, from the command line."""

import json
import subprocess
import sys
import textwrap

import pytest
from test_run_script import PRELUDE, ROOT, Finished

from emulator.bridge.patches import ORIGINAL_ENVIRONMENT
from emulator.commands.main import main
from emulator.commands.run import REPORT_EXIT


@pytest.fixture
def timed(tmp_path, capsys, monkeypatch):
    """Return a function that runs a script under `time` in this process."""

    def timed(body, *options):
        (tmp_path / "timed.py").write_text(body)
        monkeypatch.setattr(sys, "argv", list(sys.argv))
        monkeypatch.setattr(sys, "path", list(sys.path))
        return Finished(main(["time", *options, str(tmp_path / "timed.py")]), *capsys.readouterr())

    return timed


def test_time_predicts_each_launch_and_computes_nothing(timed, tmp_path):
    body = textwrap.dedent(PRELUDE) + "add(*map(from_dlpack, (a, b, c)))\nprint(bool(c.isnan().all()))\n"
    done = timed(body, "--trace", str(tmp_path / "traces"), "--json", str(tmp_path / "found.json"))
    assert done.returncode == 0 and done.stdout.startswith("True\n")
    assert "predicted" in done.stdout and "2 clusters" in done.stdout and "assumed:" in done.stdout
    assert (tmp_path / "traces" / "1.json").is_file()
    (found,) = json.loads((tmp_path / "found.json").read_text())
    assert found["cycles"] > 0 and found["conditions"]["clusters"] == []


def test_time_writes_into_a_new_folder(timed, tmp_path):
    assert timed("", "--json", str(tmp_path / "new/found.json")).returncode == 0
    assert json.loads((tmp_path / "new/found.json").read_text()) == []


def test_time_names_its_chips(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["time", "--chip", "b400", "script.py"])
    assert "argument --chip: invalid choice: 'b400'" in (said := capsys.readouterr().err)
    assert all(name in said for name in ("b200", "b300", "gb300", "h100", "h200"))


@pytest.mark.long
def test_time_emulates_the_chip_that_it_predicts_for(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import torch\nprint(torch.cuda.get_device_name(), torch.cuda.get_device_capability())\n")
    for options, environment in ((["--chip", "h200"], {}), ([], {"EMULATOR_DEVICE": "h200"})):
        command = [sys.executable, "-m", "emulator", "time", *options, str(script)]
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=600, env=ORIGINAL_ENVIRONMENT | environment
        )
        assert done.returncode == 0 and "H200" in done.stdout and "(9, 0)" in done.stdout, done.stderr


ENTRY = '".version 8.8\\n.target sm_100a\\n.address_size 64\\n.entry k() {{ {} ret; }}"'


def test_a_script_that_enters_a_device_itself_is_predicted(timed):
    done = timed(f"import emulator\nwith emulator.emulate(): emulator.launch({ENTRY.format('bar.sync 0;')})")
    assert (done.returncode, done.stdout.count("predicted")) == (0, 1), done.stderr


def test_launches_on_cpu_tensors_in_a_device_that_a_script_enters_itself_are_predicted(timed):
    body = """
    import emulator

    @cute.kernel
    def meet(times: cute.Tensor):
        for _ in cutlass.range(times[0]):
            cute.arch.sync_threads()

    @cute.jit
    def go(times: cute.Tensor):
        meet(times).launch(grid=(1, 1, 1), block=(64, 1, 1))

    with emulator.emulate():
        go(from_dlpack(torch.full((1,), 3, dtype=torch.int32, device="cpu")))
    """
    done = timed(textwrap.dedent(PRELUDE + body))
    assert (done.returncode, done.stdout.count("predicted")) == (0, 1), done.stderr


@pytest.mark.parametrize("caught", ["", "try: {}\nexcept emulator.EmulatorError: pass"], ids=["", "caught"])
def test_an_error_of_a_launch_is_reported_once(timed, caught):
    launch = f"emulator.launch({ENTRY.format('suld;')})"
    done = timed("import emulator\n" + (caught.format(launch) or launch))
    assert (done.returncode, done.stdout) == (REPORT_EXIT, "")
    assert done.stderr.startswith("UnknownInstruction: ") and "Traceback" not in done.stderr


@pytest.mark.parametrize("check", ["assert False, 'wrong results'", "raise SystemExit(1)", "raise ValueError"])
def test_a_script_whose_check_fails_after_its_launches_gets_its_predictions_and_a_message(timed, capsys, check):
    with pytest.raises((AssertionError, SystemExit, ValueError)):
        timed(f"import emulator\nemulator.launch({ENTRY.format('bar.sync 0;')})\n{check}")
    said = capsys.readouterr()
    assert said.out.count("predicted") == 1
    assert "SCRIPT failed with exit code 1; launches predicted above: 1." in said.err
    assert "compute no outputs" in said.err


def test_a_script_that_launches_nothing_gets_a_message(timed):
    done = timed("pass")
    assert done.returncode == 0 and "nothing was launched" in done.stderr and "child processes" in done.stderr
