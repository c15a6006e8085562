"""Missing waits and fences as NVIDIA's assembler sees them: the evidence "machine code" of finds.toml."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from emulator.machine_code import assembler, tool

pytestmark = [pytest.mark.long, pytest.mark.thorough]
MODULE = """.version 8.8
.target {target}
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 columns)
{{
.reg .pred %p<9>; .reg .b32 %r<40>; .reg .b64 %rd<9>; .reg .f32 %f<9>;
.shared .align 128 .b8 words[4096];
.shared .align 8 .b8 bar[8];
ld.param.u64 %rd0, [out]; ld.param.u32 %r0, [columns]; mov.u32 %r1, %tid.x; mov.u32 %r2, words; mov.u32 %r3, bar;
shl.b32 %r4, %r1, 2; add.u32 %r4, %r4, %r2; xor.b32 %r5, %r4, 4;
{body}
ret;
}}
"""
LOAD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r10}, [%r0];"
STORE = "mov.u32 %r11, 5; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r0], {%r11};"
WAIT_LOAD, WAIT_STORE = "tcgen05.wait::ld.sync.aligned;", "tcgen05.wait::st.sync.aligned;"
ARRIVE = "mbarrier.arrive.shared::cta.b64 _, [%r3];"
USE = "st.global.u32 [%rd0], %r10;"
TEST = "L: mbarrier.try_wait.parity.{0}.shared::cta.b64 %p1, [%r3], 0; @!%p1 bra L; ld.shared.u32 %r9, [%r2];"
MULTIPLY = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f0, %f1, %f2, %f3}, %rd5, %rd5, 1, 1, 1, 0, 0;"
ZEROS = "mov.b64 %rd5, 0x4000000800000001; " + " ".join(f"mov.f32 %f{i}, 0f00000000;" for i in range(4))
COMMIT, WAIT_GROUP = "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"
FENCE, SUMS = "wgmma.fence.sync.aligned;", "st.global.f32 [%rd0], %f0; st.global.f32 [%rd0+4], %f3;"


@pytest.fixture(scope="module", autouse=True)
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Put the assembler and the disassembler of PyPI on the path."""
    folder = str(tmp_path_factory.mktemp("tools"))
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", folder]
    subprocess.run([*pip, "nvidia-cuda-nvcc", "nvidia-cuda-nvdisasm"], check=True)
    sys.path.append(folder)
    yield
    sys.path.remove(folder)


INSTR = re.compile(
    r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P[0-9T]+\s+)?(\S+?)(\s.*?)?\s*;"
    r"\s+/\* 0x[0-9a-f]{16} \*/\s*/\* 0x([0-9a-f]{16}) \*/",
    re.MULTILINE,
)
CONTROL_BIT = 105 - 64
"""The first control bit in the second word of an instruction: 5 of the stall, then the scoreboards."""
SCOREBOARDS = 6


@dataclass(frozen=True)
class MachineInstr:
    """One machine instruction.

    opcode: without modifiers. text: opcode and operands, without guard. writes: the scoreboard that is released when
    its results are there, SCOREBOARDS or more for none. waits: the scoreboards that must be released before it issues.
    """

    opcode: str
    text: str
    writes: int
    waits: frozenset[int]


def code(*body: str, target: str = "sm_100a") -> list[MachineInstr]:
    """Return the machine code of a kernel up to its end."""
    disassembler = tool("nvdisasm")
    assert disassembler is not None
    with TemporaryDirectory() as folder:
        source, cubin = Path(folder) / "k.ptx", Path(folder) / "k.cubin"
        source.write_text(MODULE.format(target=target, body="\n".join(body)))
        subprocess.run([assembler()[0], f"-arch={target}", source, "-o", cubin], check=True)
        listing = subprocess.run([disassembler, "-c", "-hex", cubin], capture_output=True, text=True, check=True).stdout
    instrs = []
    for name, operands, second in INSTR.findall(listing):
        control = int(second, 16) >> CONTROL_BIT
        waits = frozenset(board for board in range(SCOREBOARDS) if control >> 11 + board & 1)
        instrs.append(MachineInstr(name.partition(".")[0], f"{name}{operands}", control >> 5 & 7, waits))
    return instrs[: next(i for i, instr in enumerate(instrs) if instr.opcode == "EXIT")]


def opcodes(instrs: Sequence[MachineInstr]) -> list[str]:
    return [instr.text.split()[0] for instr in instrs if instr.opcode != "NOP"]


def waits(instrs: Sequence[MachineInstr], reader: str, writer: str = "LDTM") -> bool:
    """Return whether an instruction, or a NOP before it, waits for the scoreboard of an earlier one."""
    at, until = (next(i for i, instr in enumerate(instrs) if instr.opcode == name) for name in (writer, reader))
    return at < until and any(instrs[at].writes in instr.waits for instr in instrs[at + 1 : until + 1])


def test_the_use_of_a_tensor_memory_load_waits_for_it() -> None:
    assert waits(code(LOAD, USE), "STG") and waits(code(LOAD, WAIT_LOAD, USE), "STG")


@pytest.mark.parametrize(("then", "opcode"), [(ARRIVE, "SYNCS"), (STORE, "STTM")])
def test_an_arrival_and_a_store_do_not_wait_for_a_tensor_memory_load(then: str, opcode: str) -> None:
    assert not waits(code(LOAD, then, WAIT_LOAD, WAIT_STORE, USE), opcode)
    assert waits(code(LOAD, WAIT_LOAD, then, WAIT_STORE, USE), opcode)


def test_a_tensor_memory_load_that_nothing_uses_is_deleted() -> None:
    assert "LDTM" in opcodes(code(LOAD, WAIT_LOAD, USE))
    assert "LDTM" not in opcodes(code(LOAD, WAIT_LOAD))


def test_a_tensor_memory_load_takes_one_address_for_the_warp() -> None:
    (load,) = (i for i in code("add.u32 %r0, %r0, %r1;", LOAD, WAIT_LOAD, USE) if i.opcode == "LDTM")
    assert "tmem[UR" in load.text


@pytest.mark.parametrize(
    "fence",
    ["tcgen05.fence::before_thread_sync;", "tcgen05.fence::after_thread_sync;", "fence.mbarrier_init.release.cluster;"],
)
def test_a_fence_that_is_no_instruction(fence: str) -> None:
    init = "mbarrier.init.shared::cta.b64 [%r3], 1;"
    with_fence, without = (opcodes(code(init, each, LOAD, WAIT_LOAD, USE)) for each in (fence, ""))
    assert sorted(with_fence) == sorted(without)


def test_relaxed_is_the_same_within_a_cta_alone() -> None:
    def arrival(form: str) -> list[str]:
        return opcodes(code(f"st.shared.u32 [%r2], %r1; mbarrier.arrive.{form}.b64 _, [%r3], 1;"))

    def wait(form: str) -> list[str]:
        return opcodes(code(TEST.format(form), "st.global.u32 [%rd0], %r9;"))

    assert arrival("relaxed.cta.shared::cta") == arrival("release.cta.shared::cta")
    assert wait("relaxed.cta") == wait("acquire.cta")
    assert "MEMBAR.ALL.GPU" in arrival("release.cluster.shared::cluster")
    assert "MEMBAR.ALL.GPU" not in arrival("relaxed.cluster.shared::cluster")
    assert "CCTL.IVALL" in wait("acquire.cluster") and "CCTL.IVALL" not in wait("relaxed.cluster")


def test_wgmma_gets_the_fence_and_the_wait_that_are_missing() -> None:
    right = code(ZEROS, FENCE, MULTIPLY, COMMIT, WAIT_GROUP, SUMS, target="sm_90a")
    assert opcodes(code(ZEROS, MULTIPLY, COMMIT, WAIT_GROUP, SUMS, target="sm_90a")) == opcodes(right)
    early = opcodes(code(ZEROS, FENCE, MULTIPLY, COMMIT, SUMS, WAIT_GROUP, target="sm_90a"))
    assert early.index("WARPGROUP.DEPBAR.LE") < early.index("STG.E")


BETWEEN = {
    "": True,
    "shfl.sync.bfly.b32 %r20, %r1, 1, 31, -1; st.global.u32 [%rd0+8], %r20;": True,
    "vote.sync.any.pred %p1, %p1, -1;": True,
    "redux.sync.add.u32 %r20, %r1, -1; st.global.u32 [%rd0+8], %r20;": True,
    "elect.sync _|%p1, -1; @%p1 st.global.u32 [%rd0+12], %r1;": True,
    "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r0], {%r1};": True,
    "fence.proxy.async.shared::cta;": False,
    "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r20}, [%r2+2048]; st.global.u32 [%rd0+8], %r20;": False,
    "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r2+2048], {%r1};": False,
    "bar.warp.sync -1;": False,
}
"""Instructions between a store and a load of shared memory, and whether the load moves above the store."""


@pytest.mark.parametrize("between", BETWEEN)
def test_a_load_moves_above_a_store_to_other_bytes_of_its_base(between: str) -> None:
    def moved(address: str) -> bool:
        after = f"ld.shared.u32 %r9, [{address}]; st.global.u32 [%rd0], %r9;"
        found = [instr.opcode for instr in code("st.shared.u32 [%r4], %r1;", between, after)]
        return found.index("LDS") < found.index("STS")

    assert moved("%r4+4") == BETWEEN[between]
    assert not moved("%r5")
