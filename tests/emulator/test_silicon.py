"""The emulator against an NVIDIA GPU: run on a machine with a GPU, as `pytest -m gpu -s` on this file.

The same PTX with the same inputs runs on both, and every output bit must agree. Forms that the GPU's compiler does not
support (tcgen05 on sm_90) and results that PTX leaves open (tolerances of the .approx forms) are counted and printed at
the end.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from emulator.coverage.forms import LIST, Form, read_forms
from emulator.engine.effects import registers
from emulator.isa import catalog as _catalog  # noqa: F401 - fills the registry
from emulator.isa import registry
from emulator.machine.execution import scheduler
from emulator.ptx.parser import parse
from emulator.ptx.syntax import Instr, Reg
from tests.emulator import test_interpolation, test_mma_sync_and_ldmatrix, test_random_programs, test_random_warps
from tests.emulator.ptx_launch import launch
from tests.emulator.silicon import Comparison, Same, Worker, equal

pytestmark = pytest.mark.gpu

HERE = Path(__file__).parent
COUNT, BLOCK = 16384, 256
BITS = {"pred": 1, "b8": 8, "b16": 16, "b32": 32, "b64": 64, "b128": 128}
NOT_ALONE = frozenset({"cvta", "isspacep", "activemask", "bar.warp.sync", "addc", "subc", "madc"})
"""Instructions that depend on more than their registers: addresses, other lanes, an earlier carry."""
BETWEEN_LANES = (".sync",)
OWN = ("%tid", "%warpid", "%smid", "%clock", "%globaltimer")
"""Special registers that may differ between the two sides, or that differ between the threads of a warp."""


@pytest.fixture(scope="module")
def comparison() -> Iterator[Comparison]:
    made = Comparison(Worker())
    yield made
    made.worker.stop()
    print(f"\n{made.worker.target}: {dict(made.tally)}")
    for reason, count in made.rejections.most_common():
        print(f"{count:5} rejected: {reason}")
    for text, part in sorted(LARGEST.items(), key=lambda item: -item[1]):
        print(f"{part:8.3f} of what PTX allows: {text}")


@pytest.fixture
def silicon(comparison: Comparison, monkeypatch: pytest.MonkeyPatch) -> Comparison:
    """Run every launch of the test on both sides."""
    comparison.same = equal
    monkeypatch.setattr(scheduler, "run", comparison)
    return comparison


DECLARATIONS = (
    ".reg .pred %p<16>; .reg .b8 %b<16>; .reg .b16 %h<16>; .reg .b32 %r<16>; .reg .b64 %d<16>; .reg .b128 %q<16>;"
    " .reg .b32 %t, %u; .reg .b64 %b, %lo, %hi; .reg .b64 %a<16>;"
)


def computes(form: Form) -> bool:
    """Return True if a form only computes from registers of each thread."""
    opcode = form.family
    entry = registry.LOWERINGS.get(opcode)
    pure = entry is not None and opcode not in NOT_ALONE and not opcode.endswith(BETWEEN_LANES)
    return pure and not any(name in form.text for name in OWN)


FORMS = {form.text: form for path in (LIST, HERE / "silicon_forms.ptx") for form in read_forms(path) if computes(form)}


def instructions(text: str) -> tuple[Instr, ...]:
    """Parse the instructions of a form."""
    kernel = f".version 8.8\n.target sm_100a\n.visible .entry k() {{ {DECLARATIONS}\n{text}\n}}"
    return parse(kernel).kernels["k"].instrs


def operands(instrs: Iterable[Instr]) -> tuple[list[Reg], list[Reg]]:
    """Return the registers that instructions write, and those that they read first."""
    results: dict[Reg, None] = {}
    given: dict[Reg, None] = {}
    for ins in instrs:
        count = registry.LOWERINGS[ins.opcode].dst
        given |= {
            r: None for o in ins.operands[count:] for r in registers(o) if isinstance(r, Reg) and r not in results
        }
        results |= {r: None for o in ins.operands[:count] for r in registers(o) if isinstance(r, Reg)}
    return list(results), list(given)


def load(register: Reg, array: str) -> str:
    """Return code that loads a register from the thread's element (16 bytes) of an array."""
    wide = f"ld.global.v2.b64 {{%lo, %hi}}, [{array}];"
    match register.type:
        case "pred":
            return f"ld.global.b32 %u, [{array}]; and.b32 %u, %u, 1; setp.ne.u32 {register.name}, %u, 0;"
        case "b128":
            return f"{wide} mov.b128 {register.name}, {{%lo, %hi}};"
    return f"ld.global.{register.type} {register.name}, [{array}];"


def store(register: Reg, array: str) -> str:
    """Return code that stores a register to the thread's element of an array."""
    match register.type:
        case "pred":
            return f"selp.b32 %u, 1, 0, {register.name}; st.global.b32 [{array}], %u;"
        case "b128":
            return f"mov.b128 {{%lo, %hi}}, {register.name}; st.global.v2.b64 [{array}], {{%lo, %hi}};"
    return f"st.global.{register.type} [{array}], {register.name};"


def kernel_of(text: str) -> tuple[str, list[Reg], list[Reg]]:
    """Return a kernel that runs instructions on the elements of arrays: results first, then operands."""
    results, given = operands(instructions(text))
    params = ", ".join(f".param .u64 p{i}" for i in range(len(results) + len(given)))
    at = "\n".join(f"ld.param.u64 %a{i}, [p{i}]; add.u64 %a{i}, %a{i}, %b;" for i in range(len(results) + len(given)))
    loads = "\n".join(load(r, f"%a{len(results) + i}") for i, r in enumerate(given))
    stores = "\n".join(store(r, f"%a{i}") for i, r in enumerate(results))
    source = f""".version 8.8
.target sm_100a
.address_size 64
.visible .entry k({params}) .reqntid {BLOCK}, 1, 1
{{
{DECLARATIONS}
mov.u32 %t, %ctaid.x; mov.u32 %u, %tid.x; mad.lo.u32 %t, %t, {BLOCK}, %u; mul.wide.u32 %b, %t, 16;
{at}
{loads}
{text}
{stores}
ret;
}}
"""
    return source, results, given


FLOAT_FIELDS = {"f32": (8, 23), "f64": (11, 52), "f16": (5, 10), "bf16": (8, 7)}
NUMBERS = [*range(9), 15, 16, 31, 32, 33, 63, 64, 65, 127, 128, 255, 256, 1 << 31, (1 << 31) - 1, 1 << 15, 1 << 63]


def special_floats(kind: str) -> list[int]:
    """Return zeros, ones, infinities, NaNs with several payloads, the ends of subnormals and normals, of both signs."""
    exponent, mantissa = FLOAT_FIELDS[kind]
    top, one = ((1 << exponent) - 1) << mantissa, ((1 << exponent - 1) - 1) << mantissa
    quiet = 1 << mantissa - 1
    found = [0, 1, 2, (1 << mantissa) - 1, 1 << mantissa, (1 << mantissa) + 1, one - 1, one, one + 1, one + quiet]
    found += [one + (1 << mantissa), one - (1 << mantissa), top - 1, top, top + 1, top + quiet, top + quiet + 5]
    return found + [value | 1 << exponent + mantissa for value in found]


def near_one(random: np.random.Generator, kind: str, count: int) -> np.ndarray:
    """Draw floats within a few powers of two of 1, so that sums cancel and products round."""
    exponent, mantissa = FLOAT_FIELDS[kind]
    bias = (1 << exponent - 1) - 1
    found = random.integers(0, 1 << 52, count, np.uint64) >> np.uint64(52 - mantissa)
    found |= (random.integers(-4, 5, count) + bias).astype(np.uint64) << np.uint64(mantissa)
    return found | random.integers(0, 2, count, np.uint64) << np.uint64(exponent + mantissa)


def halves_of(random: np.random.Generator, kind: str, count: int) -> np.ndarray:
    """Draw four 16-bit floats per 64-bit word, each a special value or near 1."""
    parts = np.where(
        random.random((4, count)) < 0.4,
        random.choice(np.array(special_floats(kind), np.uint64), (4, count)),
        near_one(random, kind, 4 * count).reshape(4, count),
    )
    return sum(part << np.uint64(16 * i) for i, part in enumerate(parts))  # type: ignore[return-value]


def inputs(random: np.random.Generator, register: Reg) -> np.ndarray:
    """Draw uint64[COUNT, 2]: random bits, edge values, floats of all widths."""
    wide = "f64" if register.type in ("b64", "b128") else "f32"
    numbers = np.array(NUMBERS, np.uint64)
    kinds = [
        random.integers(0, 1 << 64, COUNT, np.uint64),
        random.choice(np.concatenate([numbers, ~numbers]), COUNT),
        random.choice(np.array(special_floats(wide), np.uint64), COUNT),
        near_one(random, wide, COUNT),
        random.integers(0, 80, COUNT, np.uint64),
        halves_of(random, "f16", COUNT),
        halves_of(random, "bf16", COUNT),
    ]
    chosen = random.integers(0, len(kinds), COUNT)
    return np.stack([np.choose(chosen, kinds), random.integers(0, 1 << 64, COUNT, np.uint64)], 1)


@dataclass(frozen=True)
class Bound:
    """PTX's bound on the error of a result: `relative` plus `absolute`, for operands in `within`.

    The emulator's own result is within an ulp of the true one.
    """

    kind: str
    relative: float
    absolute: float = 0.0
    within: tuple[float, float] = (0.0, math.inf)


ULP = 2.0**-23
BOUNDS = {
    "div.full": Bound("f32", 2 * ULP, within=(2.0**-126, 2.0**126)),
    "div.approx": Bound("f32", 2 * ULP, within=(2.0**-126, 2.0**126)),
    "rcp.approx.f32": Bound("f32", ULP),
    "sqrt.approx": Bound("f32", ULP),
    "rsqrt.approx": Bound("f32", 2.0**-22.9),
    "sin.approx": Bound("f32", 0.0, 2.0**-20.5, (0.0, math.pi)),
    "cos.approx": Bound("f32", 0.0, 2.0**-20.5, (0.0, math.pi)),
    "lg2.approx": Bound("f32", 2.0**-22, 2.0**-22),
    "ex2.approx.f32": Bound("f32", 2 * ULP),
    "tanh.approx.f32": Bound("f32", 2.0**-11),
    "tanh.approx.f16": Bound("f16", 0.0, 2.0**-10.987),
    "tanh.approx.bf16": Bound("bf16", 0.0, 2.0**-8),
    "ex2.approx.f16": Bound("f16", 2.0**-9.9),
    "ex2.approx.ftz.bf16": Bound("bf16", 2.0**-7),
}
"""PTX ISA 9.0, 9.7.3 and 9.7.4."""


def as_floats(raw: np.ndarray, kind: str) -> np.ndarray:
    """Return the values of the elements, 16 bytes apart: float64[count, values each]."""
    words = np.ascontiguousarray(raw).view(np.uint32).reshape(-1, 4)[:, :1]
    halves = words.view(np.uint16).reshape(len(words), 2)
    with np.errstate(invalid="ignore"):  # of signalling NaN
        match kind:
            case "f32":
                return words.view(np.float32).astype(np.float64)
            case "f16":
                return halves.view(np.float16).astype(np.float64)
        return (halves.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


LARGEST: dict[str, float] = {}
"""The largest difference seen of each approximation, relative to PTX's bound."""


def within(text: str, bound: Bound, operand: np.ndarray) -> Same:
    """Compare up to a bound: NaN, infinities and zeros exactly, the rest by value."""

    def same(emulated: np.ndarray, seen: np.ndarray) -> str:
        if np.array_equal(emulated, seen):
            return ""
        mine, theirs = as_floats(emulated, bound.kind), as_floats(seen, bound.kind)
        given = np.abs(as_floats(operand.view(np.uint8), bound.kind))
        ulp = {"f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7}[bound.kind]
        smallest = {"f32": 2.0**-149, "f16": 2.0**-24, "bf16": 2.0**-133}[bound.kind]
        with np.errstate(invalid="ignore"):
            allowed = np.abs(mine) * (bound.relative + ulp) + bound.absolute + smallest
            off = np.where(mine == theirs, 0.0, np.abs(mine - theirs) / allowed)
            off[np.isnan(mine) & np.isnan(theirs)] = 0.0
            inside = (given >= bound.within[0]) & (given <= bound.within[1]) | ~np.isfinite(given)
        off = np.where(inside, off, 0.0)
        LARGEST[text] = float(np.nanmax(off))
        bad = np.argwhere(~(off <= 1.0))
        if not bad.size:
            return ""
        row, column = bad[0]
        operands = operand[row, 0].tobytes().hex()
        values = f"{mine[row, column]!r} and {theirs[row, column]!r}"
        return f"{len(bad)} of {off.size} beyond the bound: of {operands}, {values}"

    return same


def tolerance(text: str, given: list[np.ndarray]) -> Same:
    """Return how the results of an instruction are compared."""
    bound = next((b for name, b in BOUNDS.items() if text.startswith(name)), None)
    return equal if bound is None else within(text, bound, given[-1])


@pytest.mark.parametrize("text", FORMS)
def test_computation(text: str, silicon: Comparison) -> None:
    """One form on 16,384 sets of operands."""
    if FORMS[text].error():
        silicon.tally["forms that the emulator rejects"] += 1
        return
    source, results, given = kernel_of(text)
    random = np.random.default_rng(zlib.crc32(text.encode()))
    outputs = [np.zeros((COUNT, 2), np.uint64) for _ in results]
    arrays = [inputs(random, r) for r in given]
    silicon.same = tolerance(text, arrays)
    if silicon.same is not equal:
        outputs, results = outputs[:1], results[:1]
    launch(source, [*outputs, *arrays], grid=(COUNT // BLOCK, 1, 1), block=(BLOCK, 1, 1))


EXACT = slice(4 * 0x3F00, 4 * 0x4000)
"""Words of a sweep's first quarter: operands of [1/2, 2), for which the emulator's lg2 is correctly rounded."""


@pytest.mark.parametrize("quarter", test_interpolation.QUARTERS)
@pytest.mark.parametrize("op", ["ex2", "lg2", "rcp"])
def test_every_operand(op: str, quarter: int, silicon: Comparison) -> None:
    """All 2^32, to the bit, except those for which lg2 is known to differ."""

    def same(emulated: np.ndarray, seen: np.ndarray) -> str:
        if (op, quarter) == ("lg2", 0):
            emulated, seen = (np.delete(words, EXACT) for words in (emulated, seen))
        return equal(emulated, seen)

    silicon.same = same
    test_interpolation.sweep(op, quarter)


@pytest.mark.parametrize("seed", range(400))
def test_random_program(seed: int, silicon: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arbitrary jumps, and warp-wide instructions under divergence.

    Optimisation is off, because the driver's compiler (580.159) miscompiles one of 400 programs, seed 278, in which a
    loop has two entries.
    """
    monkeypatch.setattr(silicon, "optimisation", 0)
    test_random_programs.test_every_thread_does_what_it_would_do_alone(seed)
    test_random_warps.test_threads_that_meet_under_divergence(seed)


ROUNDING = {
    ("f32", "f16"): 2.0**-21, ("f32", "bf16"): 2.0**-21, ("f32", "tf32"): 2.0**-21, ("f32", "e4m3"): 2.0**-11,
    ("f64", "f64"): 2.0**-49,
}  # fmt: skip
"""The allowed error of a matrix product, relative to the sum of its terms' magnitudes. PTX leaves the order and
precision of sums open. On sm_90 those of 8-bit floats keep 13 bits.
"""


@pytest.mark.parametrize("product", test_mma_sync_and_ldmatrix.PRODUCTS, ids=str)
def test_matrix_product(product: test_mma_sync_and_ldmatrix.Product, silicon: Comparison) -> None:
    """Normal numbers. Integers are exact."""
    random = np.random.default_rng(product.k)
    factors: list[np.ndarray] = [random.normal(0, 1, (n, product.k)) for n in (product.m, 8)]
    if product.to == "s32":
        factors = [random.integers(0 if "u8" in (product.a, product.b) else -128, 128, f.shape) for f in factors]
    c = random.normal(0, 8, (product.m, 8)).round(2)
    size = float((np.abs(factors[0]) @ np.abs(factors[1].T) + np.abs(c)).max())
    first = "e4m3" if product.a in test_mma_sync_and_ldmatrix.FP8 else product.a
    bound = size * ROUNDING.get((product.to, first), 2.0**-10)

    def same(emulated: np.ndarray, seen: np.ndarray) -> str:
        if product.to == "s32" or np.array_equal(emulated, seen):
            return equal(emulated, seen)
        kind = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[product.to]
        off = float(np.abs(emulated.view(kind).astype(np.float64) - seen.view(kind)).max())
        LARGEST[f"mma.sync of {product}"] = off / bound
        return "" if off <= bound else f"off by {off}, allowed is {bound}"

    silicon.same = same
    a, b = (test_mma_sync_and_ldmatrix.codes(f, kind) for f, kind in zip(factors, (product.a, product.b), strict=True))
    product.run(a, b, test_mma_sync_and_ldmatrix.codes(c, product.to))


LEFT_OUT = ("needs_a_releasing_barrier", "inc-u32", "dec-u32")
"""A test of wrong programs, which the emulator reports only at level pedantic, and reductions whose result shows their
arbitrary order.
"""
MODULES = (
    "barrier",
    "cp_async_bulk",
    "cp_async_bulk_tensor",
    "cp_async_bulk_tensor_cluster",
    "dsmem",
    "early_uses",
    "engine",
    "ld_st",
    "lookups",
    "machine_forms",
    "mbarrier",
    "mma_sync_and_ldmatrix",
    "pairs",
    "parameters",
    "processes",
    "ptx_functions",
    "statistics",
    "tcgen05_cp",
    "tcgen05_mma",
    "tcgen05_mma_block_scaled",
    "tcgen05_mma_forms",
    "tcgen05_mma_pair",
    "tcgen05_shift",
    "tensormap",
    "wgmma",
    "wgmma_bits",
)


@pytest.mark.parametrize("module", MODULES)
def test_launches_of_the_other_tests(module: str, silicon: Comparison) -> None:
    """Every launch of the emulator's tests that ends without a fault."""
    done, rejected = silicon.tally["launches"], silicon.tally["rejected by its compiler"]
    options = ["-q", "-p", "no:cacheprovider", "--tb=short", "-o", "addopts=", "-k", f"not ({' or '.join(LEFT_OUT)})"]
    assert pytest.main([*options, str(HERE / f"test_{module}.py")]) == 0
    if silicon.tally["launches"] == done and silicon.tally["rejected by its compiler"] > rejected:
        pytest.skip("its compiler rejects every program")
    assert silicon.tally["launches"] > done
