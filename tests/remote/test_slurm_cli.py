"""Commands of a cluster's user, through a real OpenSSH server to a real Slurm, and runs of the real kernel there."""

import json
import re

import pytest

from harness.client import run_commands
from harness.host.verdict import Verdict
from harness.report.record import load
from remote import targets
from tests.harness.cheats.test_cheats import CARELESS, apply
from tests.remote.typed import typed

pytestmark = [pytest.mark.slurm, pytest.mark.sshd, pytest.mark.long]


def commands(clone, cluster, sshd, tmp_path, monkeypatch, disk_mb):
    """Return a function that runs a command in a clone; its target is the cluster behind a login node."""
    monkeypatch.setattr(run_commands, "ROOT", clone.path)
    monkeypatch.setattr(run_commands, "RESULTS", clone.path / "results")
    monkeypatch.setattr(targets, "OWN", tmp_path / "targets.toml")
    targets.OWN.write_text(
        f'default = "cluster"\n[targets.cluster]\nkind = "slurm"\nhost = "b200"\ndevice = "emulator"\n'
        f'workdir = "{sshd.folder}/work"\npartition = "main"\ntime_limit = "30"\ndisk_mb = {disk_mb}\n'
        f'python = "{sshd.account.python}"\n'
    )
    return typed


@pytest.fixture
def command(project, cluster, sshd, tmp_path, monkeypatch):
    project.write("requirements.lock", "msgspec\n")
    project.git("commit", "--quiet", "--all", "--message", "A lock that holds there")
    return commands(project, cluster, sshd, tmp_path, monkeypatch, 8)


def fixes(output):
    return re.findall(r"FIX +(.+?)  ", output)


def test_doctor(command, cluster):
    done = command("doctor")
    assert (done.exit_code, fixes(done.output)) == (0, []), done.output
    assert "login node" in done.output and "the node sees the work folder" in done.output


def test_doctor_names_busy_nodes_and_wrong_options(command, cluster):
    for _ in cluster.NODES:
        cluster.occupy()
    done = command("doctor")
    assert done.exit_code == 0 and "no node is free now" in done.output
    targets.OWN.write_text(targets.OWN.read_text().replace('"main"', '"nowhere"'))
    done = command("doctor")
    assert fixes(done.output) == ["node"] and "invalid partition specified: nowhere" in done.output
    targets.OWN.write_text(targets.OWN.read_text().replace('"nowhere"', '"main"\ngres = "gpu:b200:1"'))
    done = command("doctor")
    assert fixes(done.output) == ["node"] and "gres" in done.output


def test_runs_of_everybody(command, project, cluster):
    project.kernel(cosine=0.5)
    assert command("stage", "D1.1").exit_code == Verdict.REJECT_GATE.exit_code
    listed = command("runs", "--target", "cluster").output
    assert "REJECT_GATE" in listed and "D1.1" in listed


def evidence(folder):
    """Return what the results of a run have, wherever it was: launches, proofs, predicted cases, pins, phases, logs."""
    record = load(folder)
    cases = [(each.name, each.fresh or each.seed, [one.mode for one in each.launches]) for each in record.cases]
    logs = {path.name: bool(path.stat().st_size) for path in folder.glob("logs/*")}
    phases, spent = [each.name for each in record.phases], json.loads((folder / "verdict.json").read_text())["seconds"]
    return cases, record.proven, record.not_asked, sorted(record.cycles), record.most_cycles, phases, logs, [*spent]


def test_kernel_is_accepted_with_the_proofs_of_a_local_run(checkout, cluster, sshd, tmp_path, monkeypatch):
    command = commands(checkout, cluster, sshd, tmp_path, monkeypatch, 64)
    done = command("stage", "D1.1")
    assert done.exit_code == 0 and "D1.1 ACCEPT" in done.output, done.output
    assert "Slurm: running on n" in done.output
    (there,) = (checkout.path / "results").glob("2*")
    targets.OWN.write_text(f'{targets.OWN.read_text()}[targets.sim]\nkind = "emulator"\n')
    done = command("stage", "D1.1", "--target", "sim", "--again")
    assert done.exit_code == 0, done.output
    (here,) = set((checkout.path / "results").glob("2*")) - {there}
    assert evidence(there) == evidence(here) and evidence(there)[-2]["record-gate-again.log"]
    assert all(evidence(there)[1].values()) and len(evidence(there)[3]) == 2


@pytest.mark.thorough  # over SSH test_cheats.py tries them in every run of CI
def test_wrong_and_careless_kernels_are_not_accepted(checkout, cluster, sshd, tmp_path, monkeypatch):
    command = commands(checkout, cluster, sshd, tmp_path, monkeypatch, 64)
    checkout.replace("kernel/sm100/softmax.py", "(config.tmem.p_start + stage *", "(config.tmem.p_start + 32 + stage *")
    done = command("stage", "D1.2")
    assert done.exit_code == Verdict.REJECT_GATE.exit_code, done.output
    gates = sorted((checkout.path / "results").glob("*/gate"))
    assert "UnwrittenRead: tcgen05.mma reads tensor memory" in load(gates[-1]).cases[0].message
    for cheat in CARELESS:
        checkout.git("checkout", "--quiet", ".")
        apply(cheat, checkout)
        done = command("stage", "D1.1")
        assert done.exit_code == Verdict.REJECT_GATE.exit_code and cheat["says"] in done.output, done.output
