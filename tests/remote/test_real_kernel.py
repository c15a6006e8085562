"""The real kernel on the emulated device of a host, through a real OpenSSH server: accepted, or rejected if broken."""

import pytest

from harness.client.driver import Driver
from harness.client.plan import TimeLimits
from harness.client.run_store import RunStore
from harness.host.repository import ACCEPTED, Repository
from harness.report.record import load
from remote.ssh import Ssh

pytestmark = pytest.mark.sshd


class Silent:
    def say(self, text):
        pass

    doing = say


@pytest.mark.long
def test_kernel_is_accepted_and_one_with_a_wrong_p_offset_is_not(checkout, sshd):
    repository = Repository(checkout.path)
    target = Ssh("b200", "b200", str(sshd.folder / "work"), sshd.account.python, device="emulator", disk_mb=64)
    driver = Driver(repository, RunStore(checkout.path / "results"), Silent())
    entry = driver.judge(["D1.1"], target)
    assert entry.verdict == "ACCEPT", entry.reason
    record = load(driver.store.folder(entry.run))
    assert (record.run, record.tree.commit, record.tree.changed) == (entry.run, entry.candidate.commit, [])
    assert repository.resolve(ACCEPTED) == entry.candidate.commit
    checkout.replace("kernel/sm100/softmax.py", "(config.tmem.p_start + stage *", "(config.tmem.p_start + 32 + stage *")
    entry = driver.judge(["D1.2"], target)
    assert entry.verdict == "REJECT_GATE", entry.reason
    record = load(driver.store.folder(entry.run) / "gate")
    assert "UnwrittenRead: tcgen05.mma reads tensor memory" in record.cases[0].message
    assert checkout.git("status", "--porcelain") == " M kernel/sm100/softmax.py\n"


@pytest.mark.long  # test_ssh_runs.py has it with a program that only waits
def test_compiler_that_does_not_end_is_ended(checkout, sshd):
    """CuTeDSL traces an endless loop. The process of the phase is killed, and nothing of it remains."""
    scale = "        scale = (self.scale_log2, self.scale_log2)\n"
    checkout.replace(
        "kernel/sm100/softmax.py", scale, f"{scale}        while cutlass.const_expr(True):\n            pass\n"
    )
    target = Ssh("b200", "b200", str(sshd.folder / "work"), sshd.account.python, device="emulator", disk_mb=64)
    store = RunStore(checkout.path / "results")
    driver = Driver(Repository(checkout.path), store, Silent(), TimeLimits(compile_s=3.0))
    entry = driver.judge(["D1.1"], target)
    assert entry.verdict == "COMPILE_HANG" and "a compile did not end in 3 s" in entry.reason
    assert load(store.folder(entry.run)).phases[0].name == "compile"
