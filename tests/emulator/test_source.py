"""Reports name the source line of the compiled program, for every party and every waiting warp."""

from pathlib import Path

import numpy as np
import pytest
from ptx_launch import kernel, launch

import emulator
from emulator.errors import BudgetExceeded, Deadlock, UnwrittenRead
from emulator.machine.launch.shared_names import source_name
from emulator.machine.launch.source import source_place
from emulator.ptx.parser import parse

PROGRAM = """class Ring:
    def wait(self):
        hold_on(self)

    def once(self):
        only_here(self)


def load(ring):
    ring.wait()
    fill(ring)


def main(ring):
    ring.wait()
    ring.once()
    x = (1 +
         2)
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "kernels" / "ring.py"
    path.parent.mkdir()
    path.write_text(PROGRAM)
    return path


def with_file(body: str, path: Path) -> str:
    return kernel("k", "", body) + f'.file 1 "{path}"\n'


def places(body: str, path: Path) -> list[str]:
    (found,) = parse(with_file(body, path)).kernels.values()
    return [str(source_place(found, i)) for i in range(len(found.instrs))]


def test_a_place_has_file_function_and_text(program: Path) -> None:
    assert places("ret; .loc 1 11 4\nret;", program) == ["None", "kernels/ring.py:11 in load: fill(ring)"]


def test_a_path_beyond_ascii_is_read_as_compilers_write_it(program: Path) -> None:
    odd = program.rename(program.parent / "ré ng.py")
    written = Path("".join(chr(byte) if byte < 128 else f"\\{byte:03o}" for byte in str(odd).encode()))
    for path in (written, odd):
        assert places(".loc 1 11 4\nret;", path) == ["kernels/ré ng.py:11 in load: fill(ring)"]


def test_a_function_called_from_several_places_names_the_caller(program: Path) -> None:
    body = "".join(f".loc 1 {line} 4\nret;\n" for line in (10, 3, 15, 3, 6))
    assert places(body, program) == [
        "kernels/ring.py:10 in load: ring.wait()",
        "kernels/ring.py:3 in Ring.wait, called near kernels/ring.py:10 in load: hold_on(self)",
        "kernels/ring.py:15 in main: ring.wait()",
        "kernels/ring.py:3 in Ring.wait, called near kernels/ring.py:15 in main: hold_on(self)",
        "kernels/ring.py:6 in Ring.once: only_here(self)",
    ]


def test_a_caller_that_is_not_certain_is_not_named(program: Path) -> None:
    """The second wait may be in `main`, whose call has no instruction of its own."""
    body = "".join(f".loc 1 {line} 4\nret;\n" for line in (10, 3, 3, 17))
    assert places(body, program)[1:3] == ["kernels/ring.py:3 in Ring.wait: hold_on(self)"] * 2
    body = "".join(f".loc 1 {line} 4\nret;\n" for line in (10, 3, 11, 3, 11))
    assert [" called near " in place for place in places(body, program)] == [False, True, False, True, False]


def test_a_caller_in_another_file(program: Path) -> None:
    helpers = program.with_name("helpers.py")
    helpers.write_text("def fill(ring):\n    ring.store()\n\n\ndef both():\n    fill(1)\n")
    body = ".loc 1 11 4\nret;\n.loc 2 2 4\nret;"
    text = with_file(body, program) + f'.file 2 "{helpers}"\n'
    (found,) = parse(text).kernels.values()
    expected = "kernels/helpers.py:2 in fill, called near kernels/ring.py:11 in load: ring.store()"
    assert str(source_place(found, 1)) == expected


def test_lines_counted_within_inline_assembly_are_not_the_programs(program: Path) -> None:
    body = ".reg .pred p;\n.loc 1 15 4\n{\n.loc 1 16 4\nsetp.eq.u32 p, 0, 0;\n}\nret;"
    assert places(body, program) == ["kernels/ring.py:15 in main: ring.wait()"] * 2


def test_lines_counted_within_inline_assembly_without_braces_are_not_the_programs(program: Path) -> None:
    inline = "// begin inline asm\nadd.s32 r, r, r;\n.loc 1 12 4\nadd.s32 r, r, 1;\n// end inline asm\nret;"
    body = f".reg .b32 r;\n.loc 1 11 4\nret;\n{inline}\n.loc 1 16 4\nret;"
    assert [place.split(" ")[0][-2:] for place in places(body, program)] == ["11", "11", "11", "11", "16"]


def test_a_line_without_a_column_is_no_place(program: Path) -> None:
    body = ".loc 1 9 0\nret;\n.loc 1 11 4\nret;\n.loc 1 9 0\nret;\n.loc 1 0 4\nret;\n.loc 1 16 4\nret;"
    near = "near kernels/ring.py:11 in load: fill(ring)"
    expected = ["None", "kernels/ring.py:11 in load: fill(ring)", near, near, "kernels/ring.py:16 in main: ring.once()"]
    assert places(body, program) == expected


def test_the_compilers_own_code_belongs_to_the_line_before(program: Path) -> None:
    assert places(".loc 1 11 4\nret;\n.loc 1 0 4\nret;", program) == ["kernels/ring.py:11 in load: fill(ring)"] * 2


def test_a_file_that_is_gone_leaves_its_line(tmp_path: Path) -> None:
    assert places(".loc 1 11 4\nret;", tmp_path / "gone.py") == [f"{tmp_path}/gone.py:11: "]


def test_a_fault_shows_the_line_of_the_program(program: Path) -> None:
    body = ".reg .b32 r;\n.shared .align 4 .b8 cell[4];\n.loc 1 11 4\nld.shared.u32 r, [cell];\n"
    body += "st.shared.u32 [r], 0; ret;"
    with pytest.raises(UnwrittenRead, match=r"PTX line 9: ld\.shared.*\n +kernels/ring\.py:11 in load: fill\(ring\)"):
        launch(with_file(body, program), [])


def test_the_table_of_a_deadlock_shows_the_line_of_the_program(program: Path) -> None:
    body = """
    .reg .pred p;
    .shared .align 8 .b8 bar[8];
    mbarrier.init.shared::cta.b64 [bar], 1;
    .loc 1 15 4
    L: mbarrier.try_wait.parity.shared::cta.b64 p, [bar], 0;
    @p bra D; bra L;
    D: ret;
    """
    with pytest.raises(Deadlock, match=r"try_wait waits for parity 0.*\n +kernels/ring\.py:15 in main: ring\.wait\(\)"):
        launch(with_file(body, program), [])


def test_a_deadlock_tells_each_mbarrier_once_by_its_name_and_the_last_arrival_by_its_line(program: Path) -> None:
    body = """
    .reg .pred p; .reg .b32 r;
    mov.u32 r, %tid.x; setp.eq.u32 p, r, 0;
    @p mbarrier.init.shared::cta.b64 [1024], 1; @p mbarrier.init.shared::cta.b64 [1032], 2;
    bar.sync 0;
    .loc 1 11 4
    @p mbarrier.arrive.shared::cta.b64 _, [1032];
    @p mbarrier.complete_tx.shared::cta.relaxed.cta.b64 [1032], 16;
    .loc 1 15 4
    L: mbarrier.try_wait.parity.shared::cta.b64 p, [1032], 0;
    @p bra D; bra L;
    D: ret;
    """
    with pytest.raises(Deadlock) as raised:
        launch(with_file(body, program), [], block=(64, 1, 1), shared=16, names={0: "full[0]", 8: "full[1]"})
    waits = "PTX line {}: mbarrier.try_wait waits for parity 0 (phase 0) of full[1] (mbarrier #1 at 0x408)"
    report = str(raised.value)
    assert report.count(waits.format(15)) == 2
    assert report.endswith(
        "\n  full[1] (mbarrier #1 at 0x408), now in phase 0: 1 of 2 arrivals, -16 bytes outstanding (more bytes came "
        "than this phase expects), last arrival: mbarrier.arrive of warp 0 of CTA (0,0,0), PTX line 12\n"
        "      kernels/ring.py:11 in load: fill(ring)\n"
        "      arrives on it: kernels/ring.py:11 in load: fill(ring)"
    )


def test_the_table_of_a_running_launch_shows_the_line_of_the_program(program: Path) -> None:
    body = ".reg .b32 r; mov.b32 r, 0;\n.loc 1 16 4\nL: add.s32 r, r, 1; bra L;"
    with pytest.raises(BudgetExceeded, match=r"PTX line \d+: running\n +kernels/ring\.py:16 in main: ring\.once\(\)"):
        launch(with_file(body, program), [], budget=100)


@pytest.mark.parametrize(
    ("mangled", "name"),
    [
        ("sums", "sums"),
        ("_ZZ4workPfE4sums", "sums"),
        ("_ZZ4workPfE5tiles_0", "tiles"),
        ("_ZZN2ns5inner4workIfEEvPT_E2sA", "sA"),
        ("_ZN2ns4sumsE", "_ZN2ns4sumsE"),
    ],
)
def test_a_shared_variable_has_its_name_in_the_function(mangled: str, name: str) -> None:
    assert source_name(mangled) == name


@pytest.mark.parametrize(("at", "said"), [(0, "(4 bytes of sums)"), (12, "(4 bytes of sums from byte 12)")])
def test_a_report_names_the_shared_variable(at: int, said: str) -> None:
    ptx = kernel(
        "reads",
        ".param .u64 x",
        ".reg .b64 %a; .reg .b32 %r<3>; .shared .align 4 .b8 _ZZ4workPfE4sums[64];\nld.param.b64 %a, [x];\n"
        f"mov.u32 %r1, _ZZ4workPfE4sums;\nld.shared.b32 %r2, [%r1+{at}];\nst.global.b32 [%a], %r2;\nret;",
    )
    with emulator.emulate(), pytest.raises(UnwrittenRead) as raised:
        emulator.launch(ptx, None, [np.zeros(4, np.uint32)], block=32)
    assert said in str(raised.value)


def test_a_deadlock_names_the_lines_that_arrive_on_a_barrier() -> None:
    """The barrier that no line arrives on comes first, although the warp that waits for it comes second."""
    ptx = kernel(
        "hangs",
        ".param .u64 x",
        ".reg .b32 %r<2>; .reg .pred %p<3>; .shared .align 8 .b64 full; .shared .align 8 .b64 empty;\n"
        "mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0;\n@%p1 bra INIT;\n"
        "mbarrier.init.shared.b64 [full], 1; mbarrier.init.shared.b64 [empty], 1;\nINIT: bar.sync 0;\n"
        "setp.ge.u32 %p1, %r1, 32;\n@%p1 bra PRODUCER;\n"
        "FULL: mbarrier.try_wait.parity.shared.b64 %p2, [full], 0; @!%p2 bra FULL;\nbra DONE;\nPRODUCER:\n"
        "EMPTY: mbarrier.try_wait.parity.shared.b64 %p2, [empty], 0; @!%p2 bra EMPTY;\n"
        "mbarrier.arrive.shared.b64 _, [full];\nDONE: ret;",
    )
    line = next(number for number, text in enumerate(ptx.splitlines(), 1) if "arrive" in text)
    with emulator.emulate(), pytest.raises(Deadlock) as raised:
        emulator.launch(ptx, None, [np.zeros(4, np.uint32)], block=64)
    empty, nobody, full, arrives = raised.value.table[-4:]
    assert empty.startswith("  empty (mbarrier #1") and nobody.endswith("no arrival, commit or copy has its address")
    assert full.startswith("  full (mbarrier #0") and arrives == f"      arrives on it: PTX line {line}"


def test_a_deadlock_says_what_a_polled_word_holds_and_who_wrote_it() -> None:
    ptx = kernel(
        "polls",
        ".param .u64 x",
        ".reg .b32 %r<4>; .reg .pred %p<3>; .shared .b32 word;\nmov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 37;\n"
        "setp.ne.u32 %p2, %r1, 0;\n@!%p2 st.volatile.shared.b32 [word], 3;\nbar.sync 0;\n@%p1 bra DONE;\n"
        "AGAIN: ld.volatile.shared.b32 %r2, [word]; setp.ne.u32 %p2, %r2, 4; @%p2 bra AGAIN;\nDONE: ret;",
    )
    line = next(number for number, text in enumerate(ptx.splitlines(), 1) if "st.volatile" in text)
    with emulator.emulate(), pytest.raises(Deadlock) as raised:
        emulator.launch(ptx, None, [np.zeros(4, np.uint32)], block=64)
    said = f"in lane 5 again and again: 0x3, written by st.shared of warp 0 of CTA (0,0,0), PTX line {line}"
    assert said in str(raised.value)


@pytest.mark.parametrize(("folder", "shown"), [("src", "inner(full);"), ("include", "outer(full);")])
def test_the_line_of_an_inlined_function_is_the_first_call_outside_of_libraries(
    folder: str, shown: str, tmp_path: Path
) -> None:
    file, kernels = tmp_path / folder / "waits.h", tmp_path / "kernel.cu"
    file.parent.mkdir()
    file.write_text("wait\nouter\n  inner(full);\n")
    kernels.write_text("kernel\n  outer(full);\n")
    body = (
        ".loc 2 2 3\n.loc 1 3 3, function_name $L1, inlined_at 2 2 3\n"
        ".loc 1 1 1, function_name $L0, inlined_at 1 3 3\nmembar.cta;\nret;"
    )
    text = kernel("waits", ".param .u64 x", body) + f'\n.file 1 "{file}"\n.file 2 "{kernels}"\n'
    (found,) = parse(text).kernels.values()
    place = source_place(found, 0)
    assert str(place) == f"{file}:1, called at {file}:3, at {kernels}:2: {shown}"
    assert place is not None and place.own_call.text == shown


def test_an_inlined_function_is_placed_at_its_calls(tmp_path: Path) -> None:
    file = tmp_path / "waits.cu"
    file.write_text("wait\nouter\n  inner(full);\nkernel\n  outer(full);\n  outer(empty);\n")
    text = (
        kernel(
            "waits",
            ".param .u64 x",
            ".loc 1 5 3\n.loc 1 3 3, function_name $L1, inlined_at 1 5 3\n"
            ".loc 1 1 1, function_name $L0, inlined_at 1 3 3\n"
            "membar.cta;\n.loc 1 6 3\n.loc 1 1 1, function_name $L0, inlined_at 1 6 3\nmembar.gl;\nret;",
        )
        + f'\n.file 1 "{file}"\n'
    )
    (found,) = parse(text).kernels.values()
    first, second = (str(source_place(found, at)) for at in (0, 1))
    assert first == f"{file}:1, called at {file}:3, at {file}:5: inner(full);"
    assert second == f"{file}:1, called at {file}:6: outer(empty);"
