"""A recording is replayed on other tensors; what it asks for beside launches is held to the rules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import emulator
from emulator.recordings import Emulated, NotRecordable, Recording, RecordingError, load, replay
from emulator.recordings.capture import _without_padding
from emulator.recordings.format import NAME, Constant, HostOp, Launched, Module, Relocation
from emulator.recordings.values import layout

DOUBLE = Module("""
.version 8.8
.target sm_100a
.address_size 64
.visible .entry double(.param .u64 x, .param .u64 y)
{
  .reg .b64 %rd<5>; .reg .b32 %r<3>; .reg .f32 %f<3>;
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [y];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd1, %rd1, %rd3;
  add.s64 %rd2, %rd2, %rd3;
  ld.global.f32 %f1, [%rd1];
  add.f32 %f2, %f1, %f1;
  st.global.f32 [%rd2], %f2;
  ret;
}
""")
LAUNCH = Launched(
    DOUBLE.digest, "double", (1, 1, 1), (32, 1, 1), None, 0, False, (bytes(8), bytes(8)),
    (Relocation(0, 0, 0, 0), Relocation(1, 0, 1, 0)),
)  # fmt: skip


def tensors() -> dict[str, torch.Tensor]:
    return {"x": torch.arange(32.0), "y": torch.full((32,), torch.nan)}


def recording(*steps: Any, **results: int) -> Recording:
    return Recording(
        "double", {name: layout(t) for name, t in tensors().items()}, steps, results, {DOUBLE.digest: DOUBLE}
    )


def replayed(read: Recording, readable: frozenset[str] = frozenset()) -> dict[str, torch.Tensor]:
    given = tensors()
    with emulator.emulate():
        results = replay(read, given, Emulated(), readable)
    return given | results


def test_a_recording_comes_back_from_its_folder_and_computes(tmp_path: Path) -> None:
    written = recording(LAUNCH, y=1)
    written.save(tmp_path)
    assert load(tmp_path) == written
    assert torch.equal(replayed(load(tmp_path))["y"], torch.arange(32.0) * 2)


def test_a_workspace_holds_nan_until_something_writes_it() -> None:
    empty = HostOp(
        "aten.empty.memory_format", [[32]], {"dtype": {"torch": "float32"}, "device": {"device": "cpu"}}, (2,)
    )
    launch = replace(LAUNCH, relocations=(Relocation(0, 0, 2, 0), Relocation(1, 0, 1, 0)))
    assert replayed(recording(empty, launch))["y"].isnan().all()


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (HostOp("aten.fill_.Scalar", [{"value": 1}, 1.0], {}, (1,)), r"computes aten\.fill_\.Scalar with y"),
        (HostOp("aten.mul.Tensor", [{"value": 0}, {"value": 0}], {}, (2,)), r"computes aten\.mul\.Tensor with x"),
        (HostOp("builtins.eval.default", ["1"], {}, (2,)), "is none of torch's own operations"),
        (HostOp("aten.view.default", [{"value": 7}, [32]], {}, (8,)), "uses value 7"),
        (
            HostOp("aten._reshape_alias.default", [{"value": 1}, [4096], [1]], {}, (2,)),
            "16384 bytes in a storage of 128",
        ),
        (replace(LAUNCH, relocations=(Relocation(0, 0, 0, 4096),)), "an address 4096 bytes into a tensor of 128"),
        (replace(LAUNCH, parameters=(bytes(4), bytes(8)), relocations=()), "recorded were other sizes"),
    ],
)
def test_a_step_that_the_rules_do_not_admit_is_named(step: Any, said: str) -> None:
    with pytest.raises(NotRecordable, match=said):
        replayed(recording(step))


def test_a_merge_may_compute_with_results_but_with_nothing_else() -> None:
    total = HostOp("aten.add.Tensor", [{"value": 1}, {"value": 1}], {}, (2,))
    assert torch.equal(replayed(recording(LAUNCH, total, sum=2), frozenset({"y"}))["sum"], torch.arange(32.0) * 4)
    product = HostOp("aten.mm.default", [{"value": 1}, {"value": 1}], {}, (2,))
    with pytest.raises(NotRecordable, match=r"aten\.mm with y: allowed are"):
        replayed(recording(LAUNCH, product), frozenset({"y"}))


@pytest.mark.parametrize(
    "op",
    [
        HostOp("aten.exp.default", [{"value": 3}], {}, (4,)),
        HostOp("aten.ones_like.default", [{"value": 3}], {}, (4,)),
        HostOp("aten.cat.default", [[{"value": 3}, {"value": 3}]], {}, (4,)),
    ],
    ids=lambda op: op.op,
)
def test_operations_make_a_limited_amount_of_memory(op: HostOp) -> None:
    """A view of one element with strides of 0 may have any size; its copies may not."""
    one = Constant("float32", (1,), bytes(4), 2)
    wide = HostOp("aten.expand.default", [{"value": 2}, [1 << 40]], {}, (3,))
    with pytest.raises(NotRecordable, match="than the at most 1 GiB"):
        replayed(recording(one, wide, op))


@pytest.mark.long
def test_operations_that_each_make_little_have_the_same_limit_together() -> None:
    made = [HostOp("aten.empty.memory_format", [[100 << 20]], {}, (number,)) for number in range(2, 9)]
    with pytest.raises(NotRecordable, match="than the at most 1 GiB"):
        replayed(recording(*made))


def test_memory_beside_the_tensors_is_out_of_bounds() -> None:
    beside = replace(LAUNCH, relocations=(Relocation(0, 0, 0, 64), Relocation(1, 0, 1, 0)))
    with pytest.raises(emulator.EmulatorError, match="outside"):
        replayed(recording(beside))


def test_a_launch_may_write_to_outputs_only() -> None:
    """Also if it writes what is there already."""
    same = replace(DOUBLE, ptx=DOUBLE.ptx.replace("add.f32 %f2, %f1, %f1", "mov.f32 %f2, %f1"))
    onto_x = replace(LAUNCH, module=same.digest, relocations=(Relocation(0, 0, 0, 0), Relocation(1, 0, 0, 0)))
    read = replace(recording(onto_x), modules={same.digest: same})
    with emulator.emulate():
        replay(read, tensors(), Emulated())
        replay(recording(LAUNCH), tensors(), Emulated(), writable=frozenset({"y"}))
        with pytest.raises(NotRecordable, match="double writes to x, an input of the call"):
            replay(read, tensors(), Emulated(), writable=frozenset({"y"}))


@pytest.mark.parametrize("target", ["sm_103a", "sm_90a", "sm_120", "sm_103f"])
def test_a_module_for_another_chip_is_rejected(target: str) -> None:
    other = replace(DOUBLE, ptx=DOUBLE.ptx.replace("sm_100a", target))
    read = replace(recording(replace(LAUNCH, module=other.digest)), modules={other.digest: other})
    with pytest.raises(NotRecordable, match=f"double is compiled for {target}, not for sm_100a"):
        replayed(read)


def test_tensors_of_another_layout_are_rejected() -> None:
    with emulator.emulate(), pytest.raises(NotRecordable, match="x was recorded with another layout"):
        replay(recording(LAUNCH), tensors() | {"x": torch.zeros(64)}, Emulated())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"schema": 9}',
        '{"schema": 1, "steps": [{"step": "Shell"}]}',
        '{"schema": 1, "steps": [{"step": "Constant", "dtype": "", "shape": [Infinity], "data": "", "value": 2}]}',
    ],
)
def test_a_damaged_recording_is_rejected(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_text(text)
    with pytest.raises(RecordingError):
        load(tmp_path)


@pytest.mark.parametrize("name", ["full\x1b[2J", "\N{RIGHT-TO-LEFT OVERRIDE}", "two\nlines", "x" * 81])
def test_an_mbarrier_must_have_a_short_printable_name(tmp_path: Path, name: str) -> None:
    recording(replace(LAUNCH, names={8: name})).save(tmp_path)
    with pytest.raises(RecordingError, match="is no name of an mbarrier"):
        load(tmp_path)


def test_a_module_must_have_the_digest_that_names_it(tmp_path: Path) -> None:
    recording(LAUNCH).save(tmp_path)
    with (tmp_path / f"{DOUBLE.digest}.ptx").open("a") as file:
        file.write("// more\n")
    with pytest.raises(RecordingError, match="its SHA-256 is"):
        load(tmp_path)


def test_padding_that_no_kernel_loads_is_not_recorded() -> None:
    """Host code leaves it as the stack has it, so that it differs from process to process."""
    ptx = """
    .param .align 8 .b8 k_param_0[16], .param .align 8 .b8 k_param_1[16], .param .b8 k_param_10[8]
    ld.param.b64 %rd1, [k_param_0]; ld.param.v2.u16 {%h1, %h2}, [k_param_0+8];
    mov.b64 %rd2, k_param_1; ld.param.u32 %r1, [k_param_1+4];
    """
    full = b"\xff" * 16
    assert _without_padding(ptx, "k", 0, full) == b"\xff" * 12 + bytes(4)
    assert _without_padding(ptx, "k", 1, full) == full, "its address is taken"
    assert _without_padding(ptx, "k", 10, full[:8]) == bytes(8)
