"""The parser: scopes, operands, parameters, variables, and errors that name their line."""

from __future__ import annotations

import pytest

from emulator.errors import PtxSyntaxError
from emulator.ptx.kinds import split
from emulator.ptx.operands import OperandReader
from emulator.ptx.parser import parse
from emulator.ptx.syntax import (
    ALL_BYTES,
    Address,
    Dual,
    Imm,
    Kernel,
    Location,
    Not,
    Reg,
    Sink,
    Special,
    Symbol,
    TensorAddress,
    Vector,
)

HEAD = ".version 8.8\n.target sm_100a\n.address_size 64\n"


def kernel(body: str, params: str = "", directives: str = "", outside: str = "") -> Kernel:
    text = f"{HEAD}{outside}\n.visible .entry k({params}){directives}\n{{\n{body}\n}}\n"
    return parse(text).kernels["k"]


REGISTERS = ".reg .pred %p<9>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .u64 %rd<9>;"


def operand(text: str) -> object:
    (instr,) = kernel(f"{REGISTERS} op {text};").instrs
    return instr.operands[0]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("%r1", Reg("%r1", "b32")),
        ("%f2", Reg("%f2", "b32")),
        ("%rd3", Reg("%rd3", "b64")),
        ("%p0", Reg("%p0", "pred")),
        ("!%p0", Not(Reg("%p0", "pred"))),
        ("_", Sink()),
        ("%tid.x", Special("%tid.x")),
        ("42", Imm(42)),
        ("-42", Imm(-42)),
        ("0x1F", Imm(31)),
        ("0b101", Imm(5)),
        ("017", Imm(15)),
        ("7U", Imm(7)),
        ("0f3F800000", Imm(0x3F800000, "f32")),
        ("1.0", Imm(0x3FF0000000000000, "f64")),
        ("2.5e-1", Imm(0x3FD0000000000000, "f64")),
        ("0d3FF0000000000000", Imm(0x3FF0000000000000, "f64")),
        ("name$1", Symbol("name$1")),
        ("[%r1]", Address(Reg("%r1", "b32"), 0)),
        ("[%r1+8]", Address(Reg("%r1", "b32"), 8)),
        ("[%rd1+-8]", Address(Reg("%rd1", "b64"), -8)),
        ("[name+16]", Address(Symbol("name"), 16)),
        ("[1024]", Address(Imm(1024), 0)),
        ("{%r1, _, 3}", Vector((Reg("%r1", "b32"), Sink(), Imm(3)))),
        ("(%r1, %r2)", Vector((Reg("%r1", "b32"), Reg("%r2", "b32")))),
        ("%r1|%p1", Dual(Reg("%r1", "b32"), Reg("%p1", "pred"))),
        ("_|%p1", Dual(Sink(), Reg("%p1", "pred"))),
        (
            "[%rd1, {%r1, 0}]",
            TensorAddress(Address(Reg("%rd1", "b64"), 0), Vector((Reg("%r1", "b32"), Imm(0)))),
        ),
    ],
)
def test_operands(text: str, wanted: object) -> None:
    assert operand(text) == wanted


@pytest.mark.parametrize("text", ["[%r1", "%r1 %r2", "{%r1", "[%r1+%r2]", "0f123", "!4", "[{%r1}]", "-%r1"])
def test_operands_that_are_not_understood(text: str) -> None:
    with pytest.raises(ValueError):
        OperandReader(text, {"%r1": Reg("%r1", "b32"), "%r2": Reg("%r2", "b32")}.get).read()


def test_the_families_of_opcodes() -> None:
    assert split("add.s32") == ("add", ("s32",))
    assert split("mbarrier.try_wait.parity.shared.b64") == ("mbarrier.try_wait", ("parity", "shared", "b64"))
    assert split("tcgen05.wait::ld.sync.aligned") == ("tcgen05.wait::ld", ("sync", "aligned"))
    assert split("cp.async.bulk.tensor.2d.tile")[0] == "cp.async.bulk.tensor"
    assert split("cp.async.bulk.commit_group")[0] == "cp.async.bulk.commit_group"
    assert split("cp.async.ca.shared.global") == ("cp.async", ("ca", "shared", "global"))
    assert split("match.any.sync.b32") == ("match.any.sync", ("b32",))
    assert split("ld.global.v4.f32") == ("ld", ("global", "v4", "f32"))


def test_guards_lines_and_texts() -> None:
    k = kernel(f"{REGISTERS}\n@%p1 add.s32 %r1, %r2,\n   3;\n@!%p2 ret;")
    first, second = k.instrs
    assert first.guard == (Reg("%p1", "pred"), True)
    assert second.guard == (Reg("%p2", "pred"), False)
    assert first.line == 8
    assert second.line == 10
    assert first.text == "@%p1 add.s32 %r1, %r2, 3"


INLINE = "{ .reg .pred P1; LAB: try P1, [%r1]; @P1 bra DONE; bra LAB; DONE: }"


def test_repeated_inline_assembly_has_its_own_registers_and_labels() -> None:
    k = kernel(f".reg .b32 %r<9>;\n{INLINE}\n{INLINE}\nret;")
    predicates = [instr.operands[0] for instr in k.instrs if instr.opcode == "try"]
    assert predicates[0] != predicates[1]
    assert k.instrs[0].operands[1] == k.instrs[3].operands[1], "outer registers are shared"
    targets = [k.labels[i.operands[0].name] for i in k.instrs if i.opcode == "bra"]  # type: ignore[union-attr]
    assert targets == [3, 0, 6, 3]


def test_an_inner_register_hides_the_outer_one() -> None:
    k = kernel(".reg .b32 x; use x; { .reg .b64 x; use x; } use x;")
    assert [i.operands[0].type for i in k.instrs] == ["b32", "b64", "b32"]  # type: ignore[union-attr]


def test_a_vector_of_registers_is_named_whole_and_by_its_parts() -> None:
    k = kernel(".reg .v4 .f32 v; .reg .v2 .b64 w, u; { .reg .v2 .b32 v; mov v.y, v; } use v; use v.w, v.g, u.r, w;")
    inner, outer, parts = (instr.operands for instr in k.instrs)
    assert isinstance(inner[1], Vector) and isinstance(outer[0], Vector)
    assert inner == (inner[1].items[1], Vector((Reg("v.x@1", "b32"), Reg("v.y@1", "b32"))))
    assert outer[0].items == tuple(Reg(f"v.{part}", "b32") for part in "xyzw")
    assert parts[:3] == (outer[0].items[3], outer[0].items[1], Reg("u.x", "b64"))
    assert parts[3] == Vector((Reg("w.x", "b64"), Reg("w.y", "b64")))
    assert {reg.name for reg in k.registers} >= {"v.x", "v.x@1", "u.y"}


def test_comments_count_as_space() -> None:
    k = kernel(".reg .b32 %r<3>; // add.s32 %r0, %r0, %r0;\n/* two\nlines */ mov.b32 %r1, 2; // tail")
    assert [(i.opcode, i.line) for i in k.instrs] == [("mov", 9)]


def test_a_path_may_have_two_slashes() -> None:
    """nvcc writes the headers beside it as bin/..//include/NAME."""
    k = kernel('.loc 1 7 3\nret; // "a comment"', directives="", outside='.file 1 "/cuda/bin/..//include/x.h"\n')
    assert [(each.file, each.line) for each in k.locations] == [("/cuda/bin/..//include/x.h", 7)]


def test_modifiers_may_stand_apart() -> None:
    """CUTLASS writes `bulk_group .L2::cache_hint`."""
    first, _ = kernel(".reg .b32 %r<3>; add\t.s32 .sat %r1, %r2, 1; ret;").instrs
    assert (first.opcode, first.modifiers) == ("add", ("s32", "sat"))


def test_parameters_are_laid_out_by_alignment() -> None:
    params = (
        ".param .u8 a, .param .align 64 .b8 b[128], .param .u32 c, .param .u64 d, .param .u64 .ptr .global .align 16 e"
    )
    k = kernel("ret;", params)
    assert [(p.name, p.offset, p.size, p.align) for p in k.params] == [
        ("a", 0, 1, 1),
        ("b", 64, 128, 64),
        ("c", 192, 4, 4),
        ("d", 200, 8, 8),
        ("e", 208, 8, 8),
    ]
    assert k.param_bytes == 216


def test_directives() -> None:
    k = kernel("ret;", directives=".reqntid 128, 2\n.reqnctapercluster 2, 1, 1 .maxnreg 168 .minnctapersm 1")
    assert (k.reqntid, k.reqnctapercluster, k.maxnreg, k.minnctapersm) == ((128, 2, 1), (2, 1, 1), 168, 1)
    assert k.maxntid is None


def test_shared_variables_start_after_the_reserved_kilobyte_and_dynamic_ones_end_them() -> None:
    outside = ".extern .shared .align 1024 .b8 dyn[]; .shared .align 16 .b8 here[40]; .shared .b32 unused;"
    k = kernel(".shared .align 8 .b64 inner[2]; mov.b32 %r0, dyn; mov.b32 %r0, here;", outside=outside)
    assert {v.name: v.offset for v in k.shared} == {"inner": 1024, "here": 1040, "dyn": 2048}
    assert k.static_shared_bytes == 1080
    assert k.dynamic_shared_offset == 2048


def test_a_shared_variable_that_is_only_the_base_of_an_address_is_there() -> None:
    k = kernel(f"{REGISTERS} ld.shared.b32 %r0, [dyn+4];", outside=".extern .shared .align 16 .b8 dyn[];")
    assert [v.name for v in k.shared] == ["dyn"]


def test_registers_without_a_blank_before_their_type() -> None:
    k = kernel(".reg.b16 i,r,t; .reg .v2.f32 pair; mov.b16 i, r; mov.b16 t, i; mov.f32 pair.x, pair.y;")
    assert {(r.name, r.type) for r in k.registers} == {
        ("i", "b16"), ("r", "b16"), ("t", "b16"), ("pair.x", "b32"), ("pair.y", "b32")
    }  # fmt: skip


def test_the_bytes_that_a_load_uses() -> None:
    """The pragma applies to the next instruction, and only if that is a load."""
    load = "ld.shared.v4.b32 {%r0, %r0, %r0, %r0}, [%r0];"
    pragma = '.pragma "used_bytes_mask 0xfff";'
    k = kernel(f"{REGISTERS} {load} {pragma} {load} {load} {pragma} add.s32 %r0, %r0, %r0; {load}")
    assert [i.used for i in k.instrs if i.opcode == "ld"] == [ALL_BYTES, 0xFFF, ALL_BYTES, ALL_BYTES]


def test_local_and_global_variables() -> None:
    text = HEAD + (
        ".global .align 1 .b8 text[4] = {72, 0x69, 10, 0};\n.const .align 4 .s32 two[2] = {-1, 7};\n"
        ".global .u64 zero;\n.visible .entry k()\n{ .local .align 16 .b8 depot[24]; ret; }"
    )
    module = parse(text)
    assert [(v.name, v.size, v.initial) for v in module.variables] == [
        ("text", 4, b"Hi\n\0"),
        ("two", 8, b"\xff\xff\xff\xff\x07\0\0\0"),
        ("zero", 8, b""),
    ]
    assert [(v.name, v.size, v.offset) for v in module.kernels["k"].local] == [("depot", 24, 0)]


def test_lines_of_the_source() -> None:
    text = HEAD + '.file 1 "/home/me/kernel.py"\n.visible .entry k()\n{\n.loc 1 20 3\nret;\n.loc 1 21 0\nret;\n}'
    assert parse(text).kernels["k"].locations == (
        Location(0, "/home/me/kernel.py", 20, 3),
        Location(1, "/home/me/kernel.py", 21, 0),
    )


def test_several_kernels() -> None:
    text = HEAD + ".visible .entry a() { ret; }\n.entry b() { exit; ret; }"
    assert {name: len(k.instrs) for name, k in parse(text).kernels.items()} == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("add.s32 %x, 1, 2;\nADD x;", "line 6: this is not an instruction"),
        (".reg .q32 %x;", "line 5: unsupported register type '.q32'"),
        (".reg .v4 .b32 %x<3>;", "line 5: '%x<3>': a range of vector registers is not valid PTX"),
        (".reg .b32 %x %y;", "line 5: '%x %y' is not a valid register name"),
        (".reg .v2;", "line 5: unsupported register type '.'"),
        ("@%nothing ret;", "line 5: guard '%nothing' is not declared"),
        ("ret", "line 5: this is not a statement"),
        (".weird 3;", "line 5: unsupported directive"),
        ("mov.b32 %x, [3;", "line 5: the operand list ends too early"),
    ],
)
def test_errors_name_line_and_text(body: str, reason: str) -> None:
    with pytest.raises(PtxSyntaxError, match=reason):
        parse(f"{HEAD}.entry k() {{\n{body}\n}}")


def test_an_open_brace_is_an_error() -> None:
    with pytest.raises(PtxSyntaxError, match="never closed"):
        parse(f"{HEAD}.entry k() {{ ret;")
