"""The coverage table: its rows, and agreement with the emulator."""

import pytest

from emulator.commands.main import main
from emulator.coverage import families, markdown, read_forms
from emulator.coverage.forms import Form, expand


@pytest.mark.parametrize(
    ("line", "forms"),
    [
        ("add.{u32,s32} %r1, %r2;", ["add.u32 %r1, %r2;", "add.s32 %r1, %r2;"]),
        ("a.{x,y}.{b,c};", ["a.x.b;", "a.x.c;", "a.y.b;", "a.y.c;"]),
        ("wait{,.read} 0;", ["wait 0;", "wait.read 0;"]),
        ("mov.b64 %d1, {%r1, %r2};", ["mov.b64 %d1, {%r1, %r2};"]),
        ("ld.b32 {%r1}, [%d1];", ["ld.b32 {%r1}, [%d1];"]),
        ("mov.u32 %r1, {%tid.x,%laneid};", ["mov.u32 %r1, %tid.x;", "mov.u32 %r1, %laneid;"]),
    ],
)
def test_choices_expand_and_vectors_stay(line, forms):
    assert list(expand(line)) == forms


def test_the_list_repeats_nothing():
    texts = [form.text for form in read_forms()]
    assert len(texts) > 500
    assert len(set(texts)) == len(texts)


def test_answers_are_the_emulators():
    known = Form("9.7.1", "Integer arithmetic", "@%p1 add.s32 %r1, %r2, %r3;")
    modifier = Form("9.7.1", "Integer arithmetic", "add.upside_down.s32 %r1, %r2, %r3;")
    unknown = Form("9.7.10", "Texture", "tex.1d.v4.f32.s32 {%r1, %r2, %r3, %r4}, [%d1, {%r5}];")
    assert (known.spelling, known.error()) == ("add.s32", None)
    assert "upside_down" in str(modifier.error())
    assert "tex" in str(unknown.error())
    partly, rejected = families([known, modifier, unknown])
    assert (partly.state, rejected.state) == ("partly", "rejected")
    table = markdown([partly, rejected])
    assert "1 of 3 forms run. Families: 0 supported, 1 partly, 1 rejected." in table
    assert "| `add` | partly | 1 of 2 | `add.upside_down.s32` |" in table


def test_a_form_needs_a_heading(tmp_path):
    (tmp_path / "forms.ptx").write_text("add.s32 %r1, %r2, %r3;\n")
    with pytest.raises(ValueError, match="before the first heading"):
        list(read_forms(tmp_path / "forms.ptx"))


def test_command(capsys):
    assert main(["isa"]) == 0
    said = capsys.readouterr().out
    assert "## tcgen05 [PTX ISA 9.7.16]" in said
    assert "| `add` | supported |" in said
