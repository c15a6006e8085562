"""Kernels that are broken on purpose are rejected, with a message that leads to the line."""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from PIL import Image

from harness.host.verdict import Verdict
from harness.report.record import load
from tests.system import Checkout
from tests.tiers import tier


@dataclass(frozen=True)
class Break:
    """An edit of kernel/sm100, the message that the rejection must have, and the kernel line that it must name."""

    name: str
    path: str
    old: str
    new: str
    says: str
    line: str


BREAKS = (
    Break(
        "P is read 32 columns beside where it was stored",
        "kernel/sm100/operands.py",
        "cute.recast_ptr(tmem + config.tmem.p_start, dtype",
        "cute.recast_ptr(tmem + config.tmem.p_start + 32, dtype",
        r"tcgen05\.mma",
        "primitives.tcgen05_mma(",
    ),
    Break(
        "the second product does not wait for P",
        "kernel/sm100/mma.py",
        "            if const_expr(slice_ == 0):\n"
        '                bars.wait("p_full", stage * len(parts) + part, phase)\n',
        "            if const_expr(slice_ == 0):\n                pass\n",
        r"tcgen05\.mma",
        "primitives.tcgen05_mma(",
    ),
    Break(
        "P is signalled before its store has completed",
        "kernel/sm100/softmax.py",
        "                cute.arch.fence_view_async_tmem_store()\n            self.cta.bars",
        "                pass\n            self.cta.bars",
        r"tcgen05\.(st|wait)",
        "cute.copy(store, packed, store.partition_D(tStP))",
    ),
    Break(
        "S is never signalled",
        "kernel/sm100/mma.py",
        '            bars.commit("s_full", stage)\n',
        "",
        r"deadlock: no warp can run[\s\S]*try_wait waits for parity 0 .* of s_full\[0\][\s\S]*s_full.* 0 of 1 arrivals",
        "cute.arch.mbarrier_wait(",
    ),
)


def of_readme() -> str:
    """Return a pattern of the report in README.md, in which any number may stand where it has one."""
    page = (Path(__file__).parents[2] / "README.md").read_text()
    report = page[page.index("    UnwrittenRead: ") : page.index("    D1.1 REJECT_GATE")]
    words = re.escape(" ".join(report.split())).replace(re.escape("..."), ".*?")
    return re.sub(r"\d+", r"\\d+", words)


README_REPORT = of_readme()
ALWAYS = "the second product does not wait for P"
PARAMS = [pytest.param(each, id=each.name, marks=tier(each.name == ALWAYS)) for each in BREAKS]


@pytest.mark.parametrize("broken", PARAMS)
def test_a_broken_kernel_is_refused(broken: Break, checkout: Checkout, tmp_path: Path) -> None:
    checkout.replace(broken.path, broken.old, broken.new)
    command = [sys.executable, "-m", "harness.judge.run", "D1.1", "--device", "emulator", "--target", "sim"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path / "out")], cwd=checkout.path, capture_output=True, timeout=600, check=False
    )
    record = load(tmp_path / "out")
    assert (done.returncode, record.verdict) == (Verdict.REJECT_GATE.exit_code, "REJECT_GATE"), record.reason
    assert record.prediction is None
    shown = [case for case in record.cases if case.timeline]
    assert shown == record.cases[:1] and Image.open(tmp_path / "out" / shown[0].timeline).width == 900
    held = [case for case in record.cases if case.seed is not None]
    assert {case.outcome for case in held} == {"failed"}
    for case in held:
        assert re.search(r"PTX line \d+", case.message), case.message
        assert re.search(broken.says, case.message), case.message
        assert broken.line in "".join(lines_named(case.message, checkout)), case.message
        if broken.name == ALWAYS:
            assert re.search(README_REPORT, " ".join(case.message.split())), case.message


def lines_named(message: str, checkout: Checkout) -> list[str]:
    """Return the kernel lines that a message names by file and number."""
    named = re.findall(r"(kernel/[\w/]+\.py):(\d+)", message)
    return [(checkout.path / file).read_text().splitlines()[int(number) - 1] for file, number in named]
