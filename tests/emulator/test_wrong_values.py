"""Ten wrong results of a CuTeDSL kernel, each located by `blame` of the installed package in another folder.

No check of the emulator finds them: their results are wrong, that is all. docs/howto/find-a-wrong-value.md says how the
reports are read.
"""

from __future__ import annotations

import operator
import re
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.emulator.located import Planted
from tests.tiers import shortened, tier

PROGRAM = Path(__file__).parent / "programs/attend.py"

pytestmark = pytest.mark.long


@dataclass(frozen=True)
class Bug:
    """A line of the program, what makes it wrong, and what the report then says that locates it."""

    name: str
    right: str
    wrong: str
    says: str


BUGS = (
    Bug("wrong index", "vg[None, i + 1]", "vg[None, i]", r"B row (\d+) is v\[0:64, \1\]\n.*B row \1 is v\[0:64, \1\]"),
    Bug(
        "wrong swizzle",
        "cute.recast_ptr(sP.iterator, p_layout.inner)",
        "cute.recast_ptr(sP.iterator, cute.make_swizzle(2, 4, 3))",
        r"o\[4:8 of every 8, :\][\s\S]*A row \d+ is computed, K in the order of the stores of PTX lines \d+ to \d+, ",
    ),
    Bug(
        "wrong descriptor",
        "pv.make_fragment_B(sV)",
        "pv.make_fragment_B(cute.make_tensor(sV.iterator, cute.make_layout(((64, 16), 1, 4, STAGES), "
        "stride=((1, 64), 0, 512, 4096))))",
        r"B row (\d+) is v\[0:16, \1\], v\[8:24, \1\], v\[16:32, \1\], v\[24:40, \1\]",
    ),
    Bug(
        "lost rescale",
        "o[j] = o[j] * rescale + part[j]",
        "o[j] = o[j] + part[j]",
        r"o\[j\] = o\[j\] \+ part\[j\]  \[PTX line \d+: add\]",
    ),
    Bug(
        "wrong scale",
        "SCALE_LOG2 = 0.125 * 1.4426950408889634",
        "SCALE_LOG2 = 0.125",
        r"constants and parameters: 0\.125, ",
    ),
    Bug(
        "off-by-one tile",
        "tiles = KEYS // TILE",
        "tiles = (KEYS - 1) // TILE",
        r"inputs .*\n  v\[0:192, \d+\]\n  k\[0:192",
    ),
    Bug(
        "stale stage",
        "rV[None, None, k, stage]",
        "rV[None, None, k, i // 2 * 2 % STAGES]",
        r"B row (\d+) is v\[0:64, \1\]\n.*B row \1 is v\[0:64, \1\]\n[\s\S]*inputs .*\n  v\[\{0:64, 128:192\}, \1\]",
    ),
    Bug(
        "wrong mask",
        "i * TILE + j > 2 * row",
        "i * TILE + j > 2 * row + 1",
        r"inputs .*\n.*\n  k\[0:2, 0:64\]\n  q\[0, 0:64\]\n.*\nconditions that selected values\n  attend.py:\d+ in",
    ),
    Bug(
        "wrong lane mapping",
        "row = thread\n",
        "row = thread % 32 * 4 + thread // 32\n",
        r"to o\[(\d+), \d+\], [\s\S]*from tensor memory column \d+ lane (?!\1\b)\d+",
    ),
    Bug(
        "bf16 where fp32 was meant",
        "total = total + s[j]",
        "total = (total + s[j]).to(BFloat16).to(Float32)",
        r"so rounding made the difference; without the rounding of\n.*total = \(total \+ s\[j\]\)\.to\(BFloat16\).*\n"
        r" +it would be -0\.241",
    ),
)


@cache
def explained(environment: Path, folder: Path, name: str) -> str:
    """Return the report on a bug; on the right program for the name ""."""
    text = PROGRAM.read_text()
    for bug in BUGS:
        assert text.count(bug.right) == 1, bug.name
        if bug.name == name:
            text = text.replace(bug.right, bug.wrong)
    (folder / name).mkdir(exist_ok=True)
    (folder / name / "attend.py").write_text(text)
    asked = ["--output", "o", "--expected", "ref.npy", "--rtol", "2e-2", "--atol", "1e-2"]
    done = subprocess.run(
        [environment / "bin/ptx-emulator", "blame", *asked, "attend.py"],
        cwd=folder / name,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert ("AssertionError" in done.stderr) is bool(name), "the script sees that its result is wrong"
    return done.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("other_repository")


def test_the_right_program_is_right(installed: Path, folder: Path) -> None:
    assert "o is as expected" in explained(installed, folder, "")


@pytest.mark.parametrize("bug", [pytest.param(bug, id=bug.name, marks=tier(bug in BUGS[:1])) for bug in BUGS])
def test_the_report_locates_it(installed: Path, folder: Path, bug: Bug) -> None:
    said = explained(installed, folder, bug.name)
    assert re.search(bug.says, said), said


@pytest.mark.thorough
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_no_other_report_says_that(installed: Path, folder: Path, bug: Bug) -> None:
    """The sentence names this bug alone. A wrong index of a stage looks like a wrong index of a copy."""
    alike = {"wrong index": {"stale stage"}}.get(bug.name, set())
    others = [other.name for other in BUGS if other.name != bug.name and other.name not in alike]
    assert not [name for name in others if re.search(bug.says, explained(installed, folder, name))]


PLANTED = (
    Planted(
        "lost tail",
        "y[row, at] = p.to(y.element_type)",
        "if at < columns - 1:\n                    y[row, at] = p.to(y.element_type)",
        r"it wrote y\[:, 0:99\], by\n  rows.py:\d+ in softmax_kernel: y\[row, at\] = ",
    ),
    Planted(
        "wrong stride",
        "row = block * WARPS + thread",
        "row = block * 8 + thread",
        r"it wrote y\[{0:4, 8:10}, :\], by\n  rows.py:\d+ in softmax_kernel: y\[row, at\] = ",
    ),
    Planted(
        "wrong constant",
        "* LOG2E, fastmath=True) / total",
        "* 1.4, fastmath=True) / total",
        r"rows.py:\d+ in softmax_kernel: p = .*\[PTX line \d+: \w+\][\s\S]*constants and parameters: 1\.39999998, ",
    ),
    Planted(
        "wrong base",
        "cute.math.log(total)",
        "cute.math.log2(total)",
        r"elements of lse are wrong: [\s\S]*rows.py:\d+ in softmax_kernel: lse\[row\] = cute.math.log2\(total\) \+ ",
    ),
    Planted(
        "wrong dtype",
        "lse[row] = cute.math.log(total)",
        "lse[row] = cute.math.log(total).to(cutlass.BFloat16).to(cutlass.Float32)",
        r"so rounding made the difference; without the rounding of\n  (?:near )?rows.py:\d+ in softmax_kernel: lse\[",
    ),
)


@pytest.mark.parametrize("planted", shortened(0, PLANTED, in_ci=1), ids=operator.attrgetter("name"))
def test_what_run_says_next_locates_a_wrong_value(planted: Planted, tmp_path: Path) -> None:
    """No option is to be filled in: the script's own comparison has the expected values."""
    planted.is_located(planted.plant("rows.py", tmp_path))


PIPELINE = (
    Planted(
        "stale phase",
        "(full + stage, i // STAGES % 2)",
        "(full + stage, 0)",
        r"stale wait .*\n +prefix.py:\d+ in prefix_kernel: cute.arch.mbarrier_wait\(full \+ stage, 0\)",
    ),
    Planted(
        "wrong tile",
        "xg[None, i]",
        "xg[None, i // 2 * 2]",
        r"copy\(load, xg\[None, i // 2 \* 2\].*\n +\S+ from x\[\d+, \d+\] to sX [\s\S]*\n  x\[\d+, \{\d+, \d+\}\]\n",
    ),
    Planted(
        "stale phase of the producer",
        "(i // STAGES + 1) % 2",
        "1",
        r"stale wait .*\n +prefix.py:\d+ in prefix_kernel: cute.arch.mbarrier_wait\(empty \+ stage, 1\)",
    ),
    Planted(
        "phase of the iteration",
        "(full + stage, i // STAGES % 2)",
        "(full + stage, i % 2)",
        r"loaded before, and not used yet: .*not ordered after a TMA load[\s\S]*in prefix_kernel: acc\[r\] = acc[\s\S]*"
        r"missing +a wait of warp \d of CTA \(0,0,0\) for phase 0 of full\[1\]",
    ),
    Planted(
        "wrong byte count",
        "(full + stage, BYTES)",
        "(full + stage, BYTES // 2)",
        r"Deadlock: [\s\S]*  kernel prefix_kernel, [\s\S]*full\[0\] .*more bytes came than this phase expects.*\n"
        r" +prefix.py:\d+ in prefix_kernel: cute.arch.mbarrier_arrive_and_expect_tx",
    ),
    Planted(
        "missing fence",
        '            cute.arch.fence_proxy("async.shared", space="cta")\n',
        "",
        r"MissingProxyFence: a TMA store reads [\s\S]*prefix.py:\d+ in prefix_kernel: sY\[r, thread, 0\] = acc\[r\]",
    ),
    Planted(
        "reused buffer",
        "cute.arch.cp_async_bulk_wait_group(0, read=True)",
        "pass",
        r"MissingWait: st.shared writes [\s\S]* of sY [\s\S]*missing +cp.async.bulk.wait_group",
    ),
    Planted(
        "aliased buffers",
        "smem.allocate_tensor(Float32, out_layout, 128)",
        "cute.make_tensor(sX.iterator, out_layout)",
        r"DataRace: a TMA load writes .* of sX [\s\S]*prefix.py:\d+ in prefix_kernel: sY\[r, thread, 0\] = acc\[r\]",
    ),
    Planted(
        "swapped strides",
        "(ROWS, COLS, 1), stride=(COLS, 1, ROWS * COLS)",
        "(ROWS, COLS, 1), stride=(1, ROWS, ROWS * COLS)",
        r"y\[(\d+), \d+\] is [\s\S]*prefix.py:\d+ in prefix_kernel: sY\[r, thread, 0\] = [\s\S]* from x\[(?!\1,)\d+, ",
    ),
    Planted(
        "double accumulation",
        "acc[r] = acc[r] + sX",
        "acc[r] = acc[r] + acc[r] + sX",
        r"prefix.py:\d+ in prefix_kernel: acc\[r\] = acc\[r\] \+ acc\[r\] .*\n.*\n[\s\S]{0,90}        add: ",
    ),
)


@pytest.mark.parametrize("planted", shortened(0, PIPELINE, in_ci=1), ids=operator.attrgetter("name"))
def test_a_fault_of_a_pipeline_of_copies_is_located(planted: Planted, tmp_path: Path) -> None:
    planted.is_located(planted.plant("prefix.py", tmp_path))
