"""Collector buffers of tcgen05.mma: a use of what a fill kept is silent, every other use is a fault that names both."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensor_program import BASE, WINDOW, after, program
from test_tcgen05_mma import operand
from test_tcgen05_mma_forms import descriptor, numbers, packed, put

from emulator.errors import CollectorError

MODES = ("eager", "lazy", "random")
M, N, COLUMNS = 128, 64, 128
A_COLUMN = 96
AT = {("A", 0): 0, ("A", 1): 16 * 1024, ("B", 0): 32 * 1024, ("B", 1): 40 * 1024}
SPARE = 64 * 1024
"""Offset of the bytes that copies bring: 16 bytes, eight elements of a row, for each step of a program."""
COMMIT = "@%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r10];"
IDESC = descriptor("bf16", M, N)
SETUP = "".join(
    f"mov.b64 %rd{8 + 2 * (name == 'B') + i}, {operand('bf16', 8, False, '128B', at).descriptor + (BASE >> 4):#x};"
    for (name, i), at in AT.items()
)


@dataclass(frozen=True)
class Mma:
    """A product of A[a] and B[b], by the form of `buffer`. It does `use` with the buffer, by default what it does."""

    buffer: str = "b0"
    use: str = ""
    a: int = 0
    b: int = 0

    @property
    def kept(self) -> tuple[str, int]:
        """The operand that the buffer is for."""
        return ("A", self.a) if self.buffer == "a" else ("B", self.b)

    def text(self, number: int) -> str:
        ws = "" if self.buffer == "a" else ".ws"
        use = f".collector::{self.buffer}::{self.use}" if self.use else ""
        form = f"@%p1 tcgen05.mma{ws}.cta_group::1.kind::f16{use}"
        return f"{form} [%r20], %rd{8 + self.a}, %rd{10 + self.b}, %r22, %p5; // step {number}"


@dataclass(frozen=True)
class Overwrite:
    """The first elements of an operand are stored again, after all products so far are complete."""

    which: tuple[str, int]
    values: tuple[int, ...]
    by: str

    def text(self, number: int) -> str:
        first = BASE + AT[self.which]
        store = f"mov.b32 %r25, {words(self.values)[0]:#x}; @%p1 st.shared.b32 [%r24], %r25; fence.proxy.async;"
        copy = f"""@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r10], 16;
add.s64 %rd12, %rd0, {SPARE + 16 * number};
@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r24], [%rd12], 16, [%r10];
{wait(f"C{number}")}"""
        return f"{complete(number)} add.s32 %r24, %r12, {first - BASE};\n{copy if self.by == 'copy' else store}"


Step = Mma | Overwrite


def words(values: tuple[int, ...]) -> np.ndarray:
    """Return values as bf16, two to a word."""
    return (np.array(values, np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint32)


def wait(label: str) -> str:
    """Return a wait for the next phase of the mbarrier %r10, whose parity is %r23."""
    return f"""{label}: mbarrier.try_wait.parity.shared.b64 %p2, [%r10], %r23; @!%p2 bra {label};
xor.b32 %r23, %r23, 1;"""


def complete(number: int | str) -> str:
    """Return a wait for the completion of all products so far."""
    return f"{COMMIT}\n{wait(f'W{number}')}\n"


def run(steps: list[Step], completion: str, seed: int = 0) -> None:
    """Run steps on small integers, and compare the accumulator with numpy's."""
    values = {key: numbers(M if key[0] == "A" else N, "bf16") for key in AT}
    image, state = np.zeros((1, WINDOW), np.uint8), np.zeros((1, COLUMNS, 128), np.float32)
    for key, at in AT.items():
        put(image[0], operand("bf16", len(values[key]), False, "128B", at), values[key], "bf16")
    expected = state.copy()
    for number, step in enumerate(steps):
        if isinstance(step, Mma):
            expected[0, :N] += values["B", step.b] @ values["A", step.a].T
        else:
            image[0, SPARE + 16 * number :][:16] = words(step.values).view(np.uint8)
            count = 8 if step.by == "copy" else 2
            values[step.which][0, :count] = step.values[:count]
    assert_result(act(steps), image, state, expected, completion, seed)


def act(steps: list[Step]) -> str:
    text = "\n".join(step.text(number) for number, step in enumerate(steps))
    return f"{SETUP} mov.b32 %r20, 0; mov.b32 %r22, {IDESC:#x}; mov.b32 %r23, 1;\n{text}\n"


def assert_result(text: str, image: Any, state: Any, expected: Any, completion: str, seed: int = 0) -> None:
    np.testing.assert_array_equal(after(text, image, state, completion=completion, seed=seed), expected)


def line_of(text: str, number: int | str) -> int:
    (found,) = [i for i, line in enumerate(text.splitlines(), 1) if line.endswith(f"// step {number}")]
    return found


def reported(steps: list[Step], completion: str, *says: str, fill: int | None = None) -> None:
    """Require a fault at the last step, which names the step that filled the buffer."""
    with pytest.raises(CollectorError) as caught:
        run(steps, completion)
    text, report = program(act(steps), COLUMNS, 1), str(caught.value)
    assert caught.value.line == line_of(text, len(steps) - 1), report
    assert all(re.search(words, report, re.DOTALL) for words in says), report
    if fill is None:
        assert "filled at" not in report
    else:
        assert re.search(rf"filled at +PTX line {line_of(text, fill)}: ", report), report


NEW = tuple(range(1, 9))
BROKEN: dict[str, tuple[list[Step], int | None, str]] = {
    "a use without a fill": ([Mma(use="use")], None, r"b0 finds it empty.*missing +a fill of b0 in CTA \(0,0,0\)"),
    "a last use without a fill": ([Mma("a", "lastuse")], None, "buffer a finds it empty"),
    "a use after a store": (
        [Mma(use="fill"), Overwrite(("B", 0), (9, 9, *NEW[2:]), "store"), Mma(use="use")],
        0,
        r"b0 reads an operand that was overwritten after the fill.*overwritten +4 of 2048 bytes",
    ),
    "a use after a copy": (
        [Mma("a", "fill"), Mma("a", "use"), Overwrite(("A", 0), (9,) * 8, "copy"), Mma("a", "use")],
        0,
        r"buffer a reads an operand that was overwritten after the fill.*overwritten +16 of 4096 bytes",
    ),
    "a use of another buffer": ([Mma("b1", "fill"), Mma("b0", "use")], None, "b0 finds it empty"),
    "a use for another descriptor": (
        [Mma("b2", "fill"), Mma("b2", "use", b=1)],
        0,
        r"b2 finds another operand there.*operands +B at matrix descriptor 0x\w+ and B at matrix descriptor 0x\w+$",
    ),
    "a use of the data of a later fill": (
        [Mma("b2", "fill"), Mma("b2", "fill", b=1), Mma("b2", "use")],
        1,
        "b2 finds another operand there",
    ),
    "a use after the last use": (
        [Mma("a", "fill"), Mma("a", "lastuse"), Mma("a", "use")],
        0,
        r"buffer a finds it empty.*emptied at +PTX line \d+: .*a::lastuse",
    ),
    "a use after a discard": ([Mma("b3", "fill"), Mma("b3", "discard"), Mma("b3", "use")], 0, "emptied at .*:discard"),
    "a use after the default": ([Mma("b0", "fill"), Mma(), Mma("b0", "use")], 0, r"emptied at .*kind::f16 "),
    "a use after a product without .ws": ([Mma("b1", "fill"), Mma("a"), Mma("b1", "use")], 0, "emptied at"),
    "a use after a product with .ws": ([Mma("a", "fill"), Mma("b1"), Mma("a", "use")], 0, "emptied at"),
}  # fmt: skip


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("name", BROKEN)
def test_broken(name: str, completion: str) -> None:
    steps, fill, says = BROKEN[name]
    reported(steps, completion, says, fill=fill)


@pytest.mark.parametrize("completion", MODES)
def test_good(completion: str) -> None:
    """Several buffers, other products between, data that comes again, and other operands that change."""
    run([Mma("b0", "fill"), Mma("b1", "fill", b=1), Mma("b0", "use", a=1), Mma("b1", "lastuse", b=1)], completion)
    run(
        [Mma("b0", "fill"), Mma("b3", "discard", b=1), Mma("b2", "discard"), Mma("b0", "use"), Mma("b0", "lastuse")],
        completion,
    )
    run([Mma("a", "fill"), Overwrite(("B", 0), NEW, "copy"), Mma("a", "use"), Mma("a", "lastuse", b=1)], completion)
    again = Overwrite(("B", 1), NEW, "copy")
    run([again, Mma("b1", "fill", b=1), again, Overwrite(("B", 1), NEW, "store"), Mma("b1", "use", b=1)], completion)


def first_fault(steps: list[Step]) -> int | None:
    """Return the number of the first use whose buffer does not hold its operand, by a model of the buffers."""
    held: dict[str, tuple[tuple[str, int], tuple[int, ...]]] = {}
    now: dict[tuple[str, int], tuple[int, ...]] = dict.fromkeys(AT, ())
    for number, step in enumerate(steps):
        if isinstance(step, Overwrite):
            count = 8 if step.by == "copy" else 2
            now[step.which] = step.values[:count] + now[step.which][count:]
            continue
        held = {name: what for name, what in held.items() if (name == "a") == (step.buffer == "a")}
        if step.use in ("use", "lastuse") and held.get(step.buffer) != (step.kept, now[step.kept]):
            return number
        if step.use == "fill":
            held[step.buffer] = step.kept, now[step.kept]
        elif step.use != "use":
            held.pop(step.buffer, None)
    return None


MMAS = st.builds(
    Mma,
    st.sampled_from(["a", "b0", "b1"]),
    st.sampled_from(["fill", "use", "use", "lastuse", "discard"]),
    st.integers(0, 1),
    st.integers(0, 1),
)
OVERWRITES = st.builds(
    Overwrite, st.sampled_from([*AT]), st.sampled_from([NEW, NEW[::-1]]), st.sampled_from(["copy", "store"])
)
# Each operand is written before it is filled, so that the model knows all of what a fill keeps.
KNOWN: list[Step] = [Overwrite(key, NEW, "copy") for key in AT]


DRAWN = (st.lists(st.one_of(MMAS, MMAS, OVERWRITES), max_size=12), st.sampled_from(MODES), st.integers(0, 9))


@given(*DRAWN)
@settings(max_examples=10)
def test_sequences_agree_with_a_model(drawn: list[Step], completion: str, seed: int) -> None:
    agrees_with_a_model(drawn, completion, seed)


@pytest.mark.thorough
@given(*DRAWN)
@settings(max_examples=60)
def test_more_sequences_agree_with_a_model(drawn: list[Step], completion: str, seed: int) -> None:
    agrees_with_a_model(drawn, completion, seed)


def agrees_with_a_model(drawn: list[Step], completion: str, seed: int) -> None:
    steps = KNOWN + drawn
    last = first_fault(steps)
    if last is None:
        run(steps, completion, seed)
    else:
        reported(steps[: last + 1], completion, fill=filled_by(steps[:last], steps[last]))


def filled_by(steps: list[Step], use: Step) -> int | None:
    """Return the last fill of a use's buffer."""
    assert isinstance(use, Mma)
    fills = [
        n for n, step in enumerate(steps) if isinstance(step, Mma) and (step.buffer, step.use) == (use.buffer, "fill")
    ]
    return fills[-1] if fills else None


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("change", ["kind::f16", "shape", "transposed", "negated"])
def test_the_use_is_of_the_same_kind_and_shape(change: str, completion: str) -> None:
    words = {
        "kind::f16": descriptor("f16", M, N),
        "shape": descriptor("bf16", M, 2 * N),
        "transposed": IDESC | 1 << 16,
        "negated": IDESC | 1 << 14,
    }
    steps: list[Step] = [Mma("b0", "fill"), Mma("b0", "use")]
    lines = act(steps).splitlines()
    text = "\n".join((*lines[:-1], f"mov.b32 %r22, {words[change]:#x};", lines[-1]))
    image, state = np.zeros((1, WINDOW), np.uint8), np.zeros((1, COLUMNS, 128), np.float32)
    says = {
        "kind::f16": "element bf16 and f16",
        "shape": "n 64 and 128",
        "transposed": "mn_major False and True",
        "negated": "negated False and True",
    }
    with pytest.raises(CollectorError, match=f"finds another operand there(?s:.*){says[change]}"):
        after(text, image, state, completion=completion)


STORE = """add.s32 %r26, %r6, 96; mov.b32 %r27, 0x3f803f80;
tcgen05.st.sync.aligned.32x32b.x1.b32 [%r26], {%r27}; tcgen05.wait::st.sync.aligned;"""


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("stale", [False, True])
def test_a_in_tensor_memory(stale: bool, completion: str) -> None:
    a, b = numbers(M, "bf16"), numbers(N, "bf16")
    image, state = np.zeros((1, WINDOW), np.uint8), np.zeros((1, COLUMNS, 128), np.float32)
    put(image[0], operand("bf16", N, False, "128B", AT["B", 0]), b, "bf16")
    state.view(np.uint32)[0, A_COLUMN : A_COLUMN + 8] = packed(a, "bf16")
    expected = state.copy()
    expected[0, :N] += 2 * (b @ a.T)
    form = "@%p1 tcgen05.mma.cta_group::1.kind::f16.collector::a"
    fill, use = (f"{form}::{use} [%r20], [%r21], %rd10, %r22, %p5;" for use in ("fill", "use"))
    text = f"{act([])} mov.b32 %r21, {A_COLUMN};\n{fill}\n{complete(0)}{STORE if stale else ''}\n{use}\n"
    if not stale:
        assert_result(text, image, state, expected, completion)
        return
    with pytest.raises(CollectorError, match=r"overwritten +\d+ of 1024 words"):
        after(text, image, state, completion=completion)


def in_both(text: str) -> str:
    """Return a program whose two CTAs both run `text`, with %p7 in CTA 0 and %p8 in CTA 1."""
    ranks = "setp.eq.b32 %p7, %r13, 0; setp.ne.b32 %p8, %r13, 0; and.pred %p7, %p7, %p1; and.pred %p8, %p8, %p1;"
    whole = program(f"setp.eq.b32 %p5, %r13, %r13; {ranks}\n{text}", COLUMNS, 1).replace(
        ".reg .pred %p<8>", ".reg .pred %p<9>"
    )
    return whole.replace("setp.ne.b32 %p3, %r13, 0; or.pred %p3, %p3, %p0;", "mov.pred %p3, %p0;")


@pytest.mark.parametrize("completion", MODES)
def test_each_cta_has_its_own_buffers(completion: str) -> None:
    image, state = np.zeros((2, WINDOW), np.uint8), np.zeros((2, COLUMNS, 128), np.float32)
    options = {"completion": completion, "grid": (2, 1, 1), "cluster": (2, 1, 1)}
    fill, use = (Mma(use=use).text(0).replace("@%p1", "@%p7") for use in ("fill", "use"))
    other_fill, other_use = (line.replace("@%p7", "@%p8") for line in (fill, use))
    together = "\n".join((act([]), fill, other_fill, use, other_use))
    np.testing.assert_array_equal(after("", image, state, text=in_both(together), **options), state)
    with pytest.raises(CollectorError, match=r"finds it empty(?s:.*)by +warp 0 of CTA \(1,0,0\)"):
        after("", image, state, text=in_both("\n".join((act([]), fill, other_use))), **options)


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("stale", [False, True])
def test_a_pair_keeps_the_operands_of_both_ctas(stale: bool, completion: str) -> None:
    """The peer's copy overwrites its half of A between fill and use. The leader issues both."""
    a = [numbers(M, "bf16"), numbers(M, "bf16")]
    image, state = np.zeros((2, WINDOW), np.uint8), np.zeros((2, COLUMNS, 128), np.float32)
    b = numbers(N, "bf16")
    for cta in range(2):
        put(image[cta], operand("bf16", M, False, "128B", AT["A", 0]), a[cta], "bf16")
        put(image[cta], operand("bf16", N // 2, False, "128B", AT["B", 0]), b[cta * N // 2 :][: N // 2], "bf16")
        image[cta, SPARE : SPARE + 16] = words(NEW).view(np.uint8)
    expected = np.stack([2 * (b @ each.T) for each in a])
    form = "@%p1 tcgen05.mma.cta_group::2.kind::f16.collector::a"
    fill, use = (f"{form}::{use} [%r20], %rd8, %rd10, %r22, %p5;" for use in ("fill", "lastuse"))
    copy = f"""@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r10], 16;
mapa.shared::cluster.u32 %r30, %r12, 1; mapa.shared::cluster.u32 %r31, %r10, 0; add.s32 %r32, %r12, {SPARE};
fence.proxy.async;
@%p1 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r30], [%r32], 16, [%r31];
{wait("C")}"""
    between = complete(0).replace("cta_group::1", "cta_group::2") + (copy if stale else "")
    text = f"{act([])} mov.b32 %r22, {descriptor('bf16', 2 * M, N):#x};\n{fill}\n{between}\n{use}\n"
    if stale:
        with pytest.raises(CollectorError, match=r"overwritten +\d+ of 8192 bytes"):
            after(text, image, state, completion=completion)
    else:
        np.testing.assert_array_equal(after(text, image, state, completion=completion)[:, :N], expected)


@pytest.mark.parametrize("completion", MODES)
@pytest.mark.parametrize("waits", [False, True])
def test_another_thread_waits_for_the_fill(waits: bool, completion: str) -> None:
    """The use is of another lane, with an accumulator of its own."""
    image, state = np.zeros((1, WINDOW), np.uint8), np.zeros((1, COLUMNS, 128), np.float32)
    fill, use, commit = (
        line.replace("@%p1", guard)
        for line, guard in ((Mma(use="fill").text(0), "@%p1"), (Mma(use="use").text(1), "@%p7"), (COMMIT, "@%p7"))
    )
    other = f"setp.eq.b32 %p7, %r1, 5; mov.b32 %r20, {N};"
    lines = (act([]), fill, complete(0) if waits else "", other, use, commit, wait("L"))
    if waits:
        assert_result("\n".join(lines), image, state, state, completion)
        return
    with pytest.raises(CollectorError, match=r"is not ordered after its fill(?s:.*)filled at +PTX line"):
        after("\n".join(lines), image, state, completion=completion)
