"""The real kernel on the emulated device of a host, through a real OpenSSH server: its compiler does not end.

tests/harness/cheats judges it there, and test_slurm_cli.py behind a login node.
"""

import pytest

from harness.client.driver import Driver
from harness.client.plan import TimeLimits
from harness.client.run_store import RunStore
from harness.host.repository import Repository
from harness.report.record import load
from remote.ssh import Ssh

pytestmark = [pytest.mark.sshd, pytest.mark.long]


class Silent:
    def say(self, text):
        pass

    doing = say


def test_compiler_that_does_not_end_is_ended(checkout, sshd):
    """CuTeDSL traces an endless loop. test_ssh_runs.py has a program that only waits."""
    scale = "        scale = (self.scale_log2, self.scale_log2)\n"
    checkout.replace(
        "kernel/sm100/softmax.py", scale, f"{scale}        while cutlass.const_expr(True):\n            pass\n"
    )
    target = Ssh("b200", "b200", str(sshd.folder / "work"), sshd.account.python, device="emulator", disk_mb=64)
    store = RunStore(checkout.path / "results")
    driver = Driver(Repository(checkout.path), store, Silent(), TimeLimits(compile_s=1.0))
    entry = driver.judge(["D1.1"], target)
    assert entry.verdict == "COMPILE_HANG" and "a compile did not end in 1 s" in entry.reason
    assert load(store.folder(entry.run)).phases[0].name == "compile"
