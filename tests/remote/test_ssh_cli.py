"""Commands that prepare a host, through a real OpenSSH server: trust, provision, doctor, and the first run."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from harness.client import run_commands
from harness.host import walls
from harness.host.verdict import Verdict
from remote import ssh_link, targets
from tests.remote.typed import typed

pytestmark = pytest.mark.sshd


@pytest.fixture
def command(project, sshd, tmp_path, monkeypatch):
    """Provide a function that runs a command in the project, with target `b200`."""
    monkeypatch.setattr(run_commands, "ROOT", project.path)
    monkeypatch.setattr(run_commands, "RESULTS", project.path / "results")
    monkeypatch.setattr(targets, "OWN", tmp_path / "targets.toml")
    project.write("requirements.lock", "tiny==1.0\n")
    project.git("commit", "--quiet", "--all", "--message", "A small lock")
    targets.OWN.write_text(
        'default = "b200"\n[targets.b200]\nkind = "ssh"\nhost = "b200"\ndisk_mb = 8\ndevice = "emulator"\n'
        f'workdir = "{sshd.folder}/work"\n'
    )
    return typed


def wheel(folder, version):
    with zipfile.ZipFile(folder / f"tiny-{version}-py3-none-any.whl", "w") as packed:
        info = f"tiny-{version}.dist-info"
        packed.writestr("tiny.py", "x = 1\n")
        packed.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tiny\nVersion: {version}\n")
        packed.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        packed.writestr(f"{info}/RECORD", f"tiny.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")


def fixes(output):
    return re.findall(r"FIX +(.+?)  ", output)


@pytest.mark.long
def test_from_nothing_to_a_ready_host(command, sshd, project):
    ssh_link.KNOWN_HOSTS.unlink()
    done = command("doctor")
    assert done.exit_code == Verdict.INFRA.exit_code and "make trust TARGET=b200" in done.output
    assert command("trust", answer="n\n").exit_code != 0 and not ssh_link.KNOWN_HOSTS.exists()
    done = command("trust", answer="y\n")
    assert done.exit_code == 0 and "SHA256:" in done.output
    done = command("doctor")
    assert fixes(done.output) == ["packages"] and "make provision TARGET=b200" in done.output
    (sshd.folder / "pip.conf").write_text(f"[global]\nno-index = true\nfind-links = {sshd.folder}\n")
    done = command("provision")
    assert done.exit_code == Verdict.INFRA.exit_code and "tiny" in done.output
    assert fixes(command("doctor").output) == ["packages"], "half an environment is none"
    for pip in (sshd.folder / "work/env").glob("lib/python3*/site-packages/pip*"):
        shutil.rmtree(pip)  # as if it had been interrupted within `venv`
    wheel(sshd.folder, "1.0")
    assert command("provision").exit_code == 0
    assert command("provision").exit_code == 0, "again, it has nothing to do"
    done = command("doctor")
    assert (done.exit_code, fixes(done.output)) == (0, []), done.output
    assert "as in the lock" in done.output and "free" in done.output
    project.write("requirements.lock", "tiny==2.0\n")
    assert "tiny is 1.0, pinned ==2.0" in command("doctor").output


@pytest.mark.long
def test_runs_of_everybody_on_the_host(command, sshd, project):
    targets.OWN.write_text(targets.OWN.read_text() + f'python = "{sshd.account.python}"\n')
    project.write("requirements.lock", "msgspec\n")
    project.git("commit", "--quiet", "--all", "--message", "A lock that holds there")
    project.kernel(cosine=0.5)
    assert command("stage", "D1.1").exit_code == Verdict.REJECT_GATE.exit_code
    listed = command("runs", "--target", "b200").output
    assert "REJECT_GATE" in listed and "D1.1" in listed
    shutil.rmtree(project.path / "results")
    first = Path(command("dashboard", "--target", "b200").output.strip())
    assert "REJECT_GATE" in first.read_text() and "all 1" in first.read_text()
    (page,) = first.parent.glob("2*.html")
    assert "cosine 0.5" in page.read_text() and 'seed=0: <span class="failed">failed' in page.read_text()


def test_wrong_port_is_named_with_its_host(command, sshd):
    sshd.stop()
    done = command("doctor")
    assert fixes(done.output) == ["connection"]
    assert f"127.0.0.1, port {sshd.port}" in done.output and "Errno" not in done.output
    assert "HostName and Port of b200 in ~/.ssh/config" in done.output


def test_work_folder_that_cannot_be_used(command, sshd):
    """The interpreter is in it, and is not what is wrong."""
    here = sshd.folder
    for name, mode in (("locked", 0), ("read", 0o555), ("own", 0o777)):
        (here / name).mkdir()
        (here / name).chmod(mode)
    (here / "file").touch()
    asked = targets.OWN.read_text()
    cases = {
        "locked/work": f"this account may not enter {here}/locked",
        "file": f"{here}/file is not a folder",
        "file/work": f"{here}/file is not a folder",
        '"quoted': "it has a double quote, which ptxas cannot read in a path",
    }
    if os.getuid() == 0:  # the folders here belong to root, and the account of the host is another one
        cases |= {"read/a/work": f"this account may not write to {here}/read", "own": "it belongs to another account"}
    for workdir, why in cases.items():
        targets.OWN.write_text(asked.replace(f'"{here}/work"', f"'{here}/{workdir}'"))
        done = command("doctor")
        assert fixes(done.output) == ["work folder"], done.output
        assert f"{here}/{workdir}: {why}" in done.output and "give your account this folder" in done.output


def test_doctor_says_which_walls_are_up(command, monkeypatch):
    """It builds the walls that a phase would have; here a copy of them fails to."""
    said = next(line for line in command("doctor").output.splitlines() if " walls " in line)
    tried = subprocess.run([sys.executable, "-IS", walls.__file__, "--try"], capture_output=True)
    assert ("phases see no other process" in said) is (tried.returncode == 0), said
    monkeypatch.setattr(walls, "__file__", str(targets.OWN.with_name("walls.py")))
    Path(walls.__file__).write_text("raise SystemExit('no walls: Operation not permitted')\n")
    assert "none, so a candidate can do what its user can: user namespaces: Operation not" in command("doctor").output


def test_gpu_that_is_not_there(command):
    targets.OWN.write_text(targets.OWN.read_text().replace('"emulator"', '"cuda"'))
    assert "gpu" in fixes(command("doctor").output)


def test_interpreter_there_is_named(command, sshd):
    targets.OWN.write_text(targets.OWN.read_text() + 'python = "/nowhere/python"\n')
    done = command("doctor")
    assert fixes(done.output) == ["python"] and "/nowhere/python" in done.output
    assert "set base_python" in command("provision").output
    targets.OWN.write_text(targets.OWN.read_text() + f'base_python = "{sshd.account.python}"\n')
    assert fixes(command("doctor").output) == ["packages"], "the programs of the harness run"


@pytest.mark.long
def test_host_without_an_index_gets_wheels_over_the_link(command, sshd, project, tmp_path, monkeypatch):
    (sshd.folder / "pip.conf").write_text("[global]\nno-index = true\n")
    done = command("provision")
    assert done.exit_code == Verdict.INFRA.exit_code and "make provision WHEELS=folder" in done.output
    here, sent = tmp_path / "index", sshd.folder / "work/cache/wheels/tiny-1.0-py3-none-any.whl"
    here.mkdir()
    wheel(here, "1.0")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(sshd.folder / "pip.conf"))
    monkeypatch.setenv("PIP_FIND_LINKS", str(here))
    assert command("provision", "--wheels", str(tmp_path / "wheels")).exit_code == 0
    assert fixes(command("doctor").output) == [] and sent.exists()
    shutil.rmtree(sshd.folder / "work/env")
    sent.write_bytes(sent.read_bytes()[:100])  # as if the connection had been lost during the copy
    assert command("provision", "--wheels", str(tmp_path / "wheels")).exit_code == 0
    assert fixes(command("doctor").output) == []
    project.write("requirements.lock", "tiny==2.0\n")
    assert "pip download here: ERROR: No matching distribution" in command("provision", "--wheels", str(here)).output
