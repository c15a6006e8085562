"""A case is not accepted without the features that it is about, which its results do not show."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from emulator.recordings import Recording
from harness.host.verdict import Verdict
from harness.judge.recordings import Index, Replayed, keys, record_case, save
from harness.judge.replay_on import launcher
from harness.judge.shown import shown
from harness.report.record import Record, load
from kernel.sm100.variants import VARIANTS
from remote.device import Emulated
from stages import d1_2, d1_3, d4, d5b, d6b, d6d, d6h
from stages.calls import callers
from stages.case import Case
from stages.catalog import CATALOG
from stages.inputs import draw
from stages.proofs import FEATURES, Shown, Unproven, asked, proven
from stages.verify import launch_in_modes
from tests.harness.cheats.test_cheats import OTHER_PTX
from tests.system import Checkout

#: The feature that proves each row of the kernel's table of variants.
OF_ROW = {
    "one Q tile": "both products in one launch",
    "two Q tiles": "two Q tiles",
    "CTA pair at 256": "2-CTA MMA",
    "CTA pair at 512": "2-CTA MMA",
    "converting CTA pair": "2-CTA MMA",
    "split keys": "split keys",
    "16 heads": "operands swapped",
    "32 heads": "operands swapped",
    "64 heads": "operands swapped",
}
ALONE = {"two Q tiles", "2-CTA MMA", "operands swapped"}
"""Features of rows that only the cases of these rows have."""
CASES = [case for milestone in CATALOG for case in milestone.load().CASES]


@pytest.fixture(scope="module")
def gate() -> Recording:
    Emulated()
    return record_case(Case("D1.1", head_dim=64, keys=128, batch=3))


@pytest.fixture(scope="module")
def plain(gate: Recording) -> Shown:
    """Return what a kernel shows whose configuration forgot every feature: one CTA and one Q tile for each sequence."""
    chip, (found,) = shown(gate)
    assert chip == "sm_100"
    return found


def test_every_row_of_the_table_of_variants_has_a_proof() -> None:
    assert set(OF_ROW) == {row.name for row in VARIANTS}
    for case in CASES:
        config, names = case.config, {feature.name for feature in asked(case)}
        if case.splits == "auto":
            assert not names & {"two Q tiles", "2-CTA MMA", "split keys", "whole keys"}, case
            continue
        assert OF_ROW[config.variant.name] in names, f"nothing proves {config.variant.name!r} of {case}"
        assert names & ALONE == {OF_ROW[config.variant.name]} & ALONE, case
        assert ("split keys" in names, "whole keys" in names) == (config.splits > 1, config.splits == 1), case


def test_every_feature_is_asked_of_some_case() -> None:
    assert {feature.name for case in CASES for feature in asked(case)} == {feature.name for feature in FEATURES}


def test_the_gate_shows_that_p_is_in_tensor_memory(plain: Shown) -> None:
    names, reasons = proven(Case("D1.1", head_dim=64, keys=128), "sm_100", [plain])
    assert names == ["both products in one launch", "P in tensor memory", "whole keys", "keys by TMA"]
    assert not reasons


FORGOTTEN = (
    (next(case for case in d1_3.CASES if case.p_path == "smem"), "P in shared memory: PV reads P from tensor memory"),
    (next(case for case in d1_2.CASES if case.splits == 2), "split keys: its clusters have 1 CTAs"),
    (replace(d1_3.CASES[-1], p_path=None), "2-CTA MMA: its MMAs have cta_group::1"),
    (next(case for case in d4.CASES if case.tokens * case.heads > 128), "two Q tiles: the number of PV's accumulators"),
    (next(case for case in d4.CASES if case.sms == 2 and case.head_dim == 512), "CTAs up to sms: its grid has 3 CTAs"),
    (d6h.CASES[0], "operands swapped: its products with V as the first operand have nothing columns, not 16"),
    (d6b.CASES[0], "listed keys gathered: it copies by TMA"),
    (next(case for case in d6d.CASES if case.heads == 128), "2-CTA MMA: its MMAs"),
    (d5b.CASES[2], "takes 1 launches, not 2"),
)


@pytest.mark.parametrize(("case", "said"), FORGOTTEN, ids=[f"{case.milestone} {said}" for case, said in FORGOTTEN])
def test_a_kernel_that_forgets_a_feature_is_refused_in_one_line(case: Case, said: str, plain: Shown) -> None:
    with pytest.raises(Unproven) as caught:
        proven(case, "sm_100", [plain])
    assert said in str(caught.value) and str(case) in str(caught.value) and "\n" not in str(caught.value)


def test_a_launch_of_another_kernel_is_refused(plain: Shown) -> None:
    case = Case("D1.2", head_dim=64, keys=256)
    with pytest.raises(Unproven, match="takes 2 launches, not 1"):
        proven(case, "sm_100", [plain, plain])
    with pytest.raises(Unproven, match="both products in one launch: its MMAs compute nothing"):
        proven(case, "sm_100", [replace(plain, products=frozenset())])


def test_with_a_launch_for_each_branch_one_gathers(plain: Shown) -> None:
    case = next(case for case in d5b.CASES if case.by_token)
    proven(case, "sm_100", [plain, replace(plain, copies=frozenset({"cp.async"}))])
    with pytest.raises(Unproven, match="listed keys gathered"):
        proven(case, "sm_100", [plain, plain])
    with pytest.raises(Unproven, match="both products"):
        proven(case, "sm_100", [plain, replace(plain, products=frozenset(), copies=frozenset({"cp.async"}))])


def test_caches_that_another_kernel_converted_are_refused(plain: Shown) -> None:
    case = next(case for case in d6d.CASES if case.heads == 128)
    pair = replace(plain, mma_ctas=frozenset({2}), cluster=2, ctas=2)
    with pytest.raises(Unproven, match="codes converted in the kernel: of extra and main it is given nothing"):
        proven(case, "sm_100", [pair])


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (("bar.sync", "mov.u64 %now, %globaltimer;\n bar.sync"), "reads %globaltimer in PTX line"),
        (("bar.sync", "mov.u32 %where, %smid;\n bar.sync"), "reads %smid in PTX line"),
        ((".visible .entry", ".global .align 4 .u32 tries;\n.visible .entry"), "may keep tries from launch to launch"),
        ((".visible .entry", ".const .align 4 .u32 table = 1;\n.visible .entry"), ""),
    ],
)
def test_what_tells_the_judge_from_others_is_refused(edit: tuple[str, str], said: str, gate: Recording) -> None:
    """A launch of the emulated device has another clock, SM and number than one of a user."""
    registers = ("{", "{\n.reg .b64 %now;\n.reg .b32 %where;")
    (module,), (launch,) = gate.modules.values(), gate.launches
    ptx = module.ptx.replace(*registers, 1).replace(*edit, 1)
    assert ptx != module.ptx.replace(*registers, 1)
    changed = replace(gate, modules={launch.module: replace(module, ptx=ptx)})
    if not said:
        assert shown(changed) == shown(gate)
        return
    with pytest.raises(Unproven, match=said):
        shown(changed)


DECLARED = (r"\A([^{]*\{)", r"\1 .reg .pred %never;")
#: Products of P and V, and before each another one in a second accumulator, which no launch executes.
PRODUCT = r"(tcgen05\.mma\S+ \[%r\d+)(\], \[%r\d+\], %rd\d+, %r\d+,)"
DEAD = {
    "predicate": r"setp.eq.u32 %never, %nctaid.x, 77; @%never \1+256\2 %never; \1\2",
    "branch": r"setp.ne.u32 %never, %nctaid.x, 77; @%never bra $on; \1+256\2 %never; $on: \1\2",
}


@pytest.mark.parametrize("code", DEAD.values(), ids=DEAD)
def test_an_instruction_that_never_runs_proves_nothing(code: str, gate: Recording, tmp_path: Path) -> None:
    case, name = Case("D1.1", head_dim=64, keys=128, batch=3), "two Q tiles: the number of PV's accumulators is 1"
    two = next(case for case in d4.CASES if case.tokens * case.heads > 128)
    (module,), (launch,) = gate.modules.values(), gate.launches
    module = replace(module, ptx=re.sub(PRODUCT, code, re.sub(*DECLARED, module.ptx), count=1))
    changed = replace(gate, modules={module.digest: module}, steps=(replace(launch, module=module.digest),))
    proven(two, *shown(changed))
    changed.save(tmp_path, "0.json")
    save(Index(files={keys(case)[0]: "0.json"}), tmp_path)
    device = Emulated()
    callers.append(Replayed(tmp_path, launcher(device)))
    try:
        (trial,) = launch_in_modes(case, draw(case, 1), device, 1, once=True)
    finally:
        callers.pop()
    assert trial.error is None and shown(changed, trial.acted) == shown(gate)
    with pytest.raises(Unproven, match=name):
        proven(two, *shown(changed, trial.acted))


ON_HOPPER = """
import sys
from remote.device import Emulated
Emulated()
from harness.judge.recordings import record_case
from harness.judge.shown import shown
from stages.case import Case
from stages.proofs import proven
chip, found = shown(record_case(Case("D1.3", head_dim=64, keys=128, p_path="smem")))
names, reasons = proven(Case("D1.3", head_dim=64, keys=128, p_path="smem"), chip, found)
print(chip, names, sorted(reasons), sorted(found[0].p_from))
proven(Case("D1.2", head_dim=64, keys=700, splits=2), chip, found)
"""


@pytest.mark.long
def test_a_feature_that_an_h200_does_not_have_is_named_with_the_reason() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ON_HOPPER],
        env={**os.environ, "CUTE_DSL_ARCH": "sm_90a"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    shown_there = "['both products in one launch', 'whole keys', 'keys by TMA'] ['P in shared memory'] ['registers']"
    assert done.stdout == f"sm_90 {shown_there}\n", done.stderr
    assert done.stderr.splitlines()[-1].endswith("splits=2 does not show split keys: its clusters have 1 CTAs")


def rejected(checkout: Checkout, milestone: str, out: Path, verdict: Verdict) -> Record:
    """Judge a checkout on a milestone. Return the record, which must have the verdict."""
    command = [sys.executable, "-m", "harness.judge.run", milestone, "--device", "emulator", "--target", "sim"]
    command += ["--out", str(out)]
    done = subprocess.run(command, cwd=checkout.path, capture_output=True, timeout=600, check=False)
    record = load(out)
    assert (done.returncode, record.verdict) == (verdict.exit_code, verdict.name), record.reason
    return record


@pytest.mark.long
def test_a_kernel_with_a_feature_in_dead_code_is_rejected(checkout: Checkout, tmp_path: Path) -> None:
    checkout.replace("stages/proofs.py", "return fits and case.splits == 1", "return True or fits and case.splits == 1")
    with (checkout.path / "kernel/__init__.py").open("a") as file:
        file.write(OTHER_PTX.format(replacements=[DECLARED, (PRODUCT, DEAD["predicate"])]))
    record = rejected(checkout, "D1.1", tmp_path / "out", Verdict.REJECT_GATE)
    said = "does not show two Q tiles: the number of PV's accumulators is 1 (and 1 more cases); only instructions that"
    assert said in record.reason and "\n" not in record.reason and record.cases


@pytest.mark.long
def test_a_configuration_that_forgets_the_path_of_p_is_rejected(checkout: Checkout, tmp_path: Path) -> None:
    """D1.3's results are right without P in shared memory."""
    checkout.replace(
        "kernel/sm100/choice.py",
        'problem.features | {"p_path": auto if problem.p_path == "auto" else problem.p_path}',
        'problem.features | {"p_path": auto}',
    )
    record = rejected(checkout, "D1.3", tmp_path / "out", Verdict.REJECT_STAGE)
    said = "hd=64 n=128 P in smem does not show P in shared memory: PV reads P from tensor memory (and 9 more cases)"
    assert record.reason == said and not record.cases
