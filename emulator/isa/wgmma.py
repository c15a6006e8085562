"""Hopper's warp group MMA (wgmma): matrices in shared memory are multiplied into the registers of four warps.

Each warp has 16 of the 64 rows and issues for itself; the four warps must only execute the same instruction.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import numpy as np

from ..chip import LANES
from ..errors import BarrierError, DescriptorError, UnknownInstruction
from ..leniency import Leniency
from ..machine.agents.products import WARPS, products, warpgroup
from ..machine.convergence import report_unconverged
from ..machine.formats.descriptors import B1, CHUNK, ElementType, MatrixDescriptor, Pattern
from ..machine.formats.numbers import packed_halves, unpacked_halves, widen
from ..machine.formats.truncation import FRACTION_BITS, truncated_sum
from ..machine.order.access import Access
from ..machine.synchronisation.barriers import Generation, NamedBarrier, meet
from ..machine.topology import Warp
from ..ptx.syntax import Imm, Instr, Vector
from . import warp_matrices
from .lane_values import matrix, same
from .registry import ALIGNED, BLOCK, Action, Modifiers, executes, never_communicates, performs, rewrites

ROWS: Final = 64
ROWS_A_WARP: Final = ROWS // WARPS
K_BYTES: Final = 32
"""Bytes along K of either matrix, for every element type."""
ELEMENTS: Final = warp_matrices.ELEMENTS | {"b1": B1}
RESULTS: Final = warp_matrices.RESULTS | {"b1": ("s32",)}
FRACTION_BITS_OF_8: Final = 13
"""Fraction bits of a term of 8-bit floats, which this tensor core truncates more than others (arXiv 2511.10909)."""
CELLS: Final[dict[str, Any]] = {"s32": np.int32, "f32": np.float32}
INT32: Final = np.iinfo(np.int32)


@dataclass(frozen=True)
class Product:
    """One wgmma.mma_async form: D [64, n] (+)= A [64, K] B [K, n]."""

    n: int
    to: str
    a: ElementType
    b: ElementType
    a_in_registers: bool
    a_mn_major: bool
    b_mn_major: bool
    negate_a: bool
    negate_b: bool
    clamp: bool

    @classmethod
    def of(cls, ins: Instr) -> Product:
        """Check an instruction and return its form. Raises UnknownInstruction."""
        shapes = [m for m in ins.modifiers if m.startswith("m64n")]
        of_a, of_b = ins.modifiers[-2:] if "popc" not in ins.modifiers else ins.modifiers[-4:-2]
        to = next((m for m in ins.modifiers if m in ("f32", "f16", "s32")), "")
        _, _, shape, to_, a_, b_, clamp, *_ = Modifiers(ins).pick(
            {"sync"}, ALIGNED, shapes, {to}, {of_a}, {of_b}, {"satfinite"}, {"and"}, {"popc"}
        )
        fits = to in RESULTS.get(of_a, ()) and (of_a == of_b or {of_a, of_b} in warp_matrices.TOGETHER)
        if None in (shape, to_, a_, b_) or not fits or (clamp and of_a not in ("u8", "s8")):
            raise UnknownInstruction(ins, f"wgmma.mma_async.{'.'.join(ins.modifiers)}")
        if (of_a == "b1") != (ins.modifiers[-2:] == ("and", "popc")):
            raise UnknownInstruction(ins, ".b1 without .and.popc")
        _check_shape(ins, str(shape), ELEMENTS[of_a], to == "s32")
        left, right = ELEMENTS[of_a], ELEMENTS[of_b]
        in_registers = isinstance(ins.operands[2], Vector)
        signs = _immediates(ins, 0 if to == "s32" else 2, (-1, 1), 5)
        majors = _immediates(ins, 0 if left.bits != 16 else 1 if in_registers else 2, (0, 1), 5 + len(signs))
        if len(ins.operands) != 5 + len(signs) + len(majors):
            raise UnknownInstruction(ins, f"{len(ins.operands) - 1} operands")
        n = int(str(shape).removeprefix("m64n").partition("k")[0])
        product = cls(
            n, to, left, right, in_registers,
            a_mn_major=len(majors) == 2 and majors[0] == 1, b_mn_major=bool(majors) and majors[-1] == 1,
            negate_a=bool(signs) and signs[0] < 0, negate_b=bool(signs) and signs[1] < 0, clamp=clamp is not None,
        )  # fmt: skip
        product._check_registers(ins)
        return product

    @property
    def k(self) -> int:
        return 8 * K_BYTES // self.a.bits

    @property
    def registers(self) -> int:
        """Registers of D per lane."""
        return self.n // 4 if self.to == "f16" else self.n // 2

    def _check_registers(self, ins: Instr) -> None:
        for operand, count in ((ins.operands[0], self.registers), (ins.operands[2], 4)):
            if isinstance(operand, Vector) and len(operand.items) != count:
                raise UnknownInstruction(ins, f"{len(operand.items)} registers of {self.to}; allowed is {count}")

    def read(self, warp: Warp, me: Access, bits: int, name: str) -> np.ndarray:
        """Return B, or this warp's rows of A, from shared memory: float32[16 or N, K].

        A warp reads only its own rows of A. NVIDIA's attention kernels rely on it: they overwrite a warp's rows of A
        with O as
        soon as that warp's wgmma is complete.
        """
        of_a, smem = name == "A", warp.cta.smem
        extent, element, mn_major = (ROWS, self.a, self.a_mn_major) if of_a else (self.n, self.b, self.b_mn_major)
        try:
            chunks, pattern = operand_chunks(bits, extent, element, mn_major, smem.size)
        except ValueError as why:
            raise DescriptorError(f"{me.instr.opcode}: operand {name}: {why}", me.instr, warp) from None
        if of_a:
            chunks = np.split(chunks, WARPS, axis=int(mn_major))[warp.index % WARPS]
        smem.shadow.read(smem.chunk_cells(chunks), me, warp.clock, pattern)
        values = widen(np.ascontiguousarray(smem.chunks[chunks]), element)
        return values.T if mn_major else values

    def sum(self, a: np.ndarray, b: np.ndarray, before: np.ndarray | None, numerics: str) -> np.ndarray:
        """Return the transposed A B plus the earlier accumulator, as [N, 16], from a [K, 16] and b [N, K]."""
        a, b = -a if self.negate_a else a, -b if self.negate_b else b
        if numerics == "tc" and self.to != "s32":
            fraction_bits = FRACTION_BITS_OF_8 if self.a.bits == 8 else FRACTION_BITS
            return truncated_sum(b, a, (self.b, self.a), before, self.k, self.to == "f16", fraction_bits)
        product: np.ndarray = np.matmul(b, a)
        if self.to == "s32":
            total = product.astype(np.int64) + (0 if before is None else before)
            return (total.clip(INT32.min, INT32.max) if self.clamp else total).astype(np.int32)
        return product if before is None else np.add(product, before)

    def accumulator(self, registers: np.ndarray) -> np.ndarray:
        """Return the warp's D [N, 16] from its registers uint32[registers, 32]."""
        values = unpacked_halves(registers) if self.to == "f16" else registers.view(CELLS[self.to])
        return values.reshape(self.n // 8, 2, 2, 8, 4).transpose(0, 4, 2, 1, 3).reshape(self.n, ROWS_A_WARP)

    def to_registers(self, d: np.ndarray) -> np.ndarray:
        """Return the registers uint32[registers, 32] of the warp's D [N, 16]."""
        values = d.reshape(self.n // 8, 4, 2, 2, 8).transpose(0, 3, 2, 4, 1)
        if self.to == "f16":
            return packed_halves(values[:, :, 0], values[:, :, 1]).reshape(-1, 32)
        return np.ascontiguousarray(values).view(np.uint32).reshape(-1, 32)


def _check_shape(ins: Instr, shape: str, element: ElementType, integers: bool) -> None:
    n, _, k = shape.removeprefix("m64n").partition("k")
    if not n.isdecimal() or k != str(8 * K_BYTES // element.bits):
        raise UnknownInstruction(ins, f".{shape} of .{element.name}")
    step = 16 if integers and int(n) > 32 else 8
    if not 8 <= int(n) <= 256 or int(n) % step:
        raise UnknownInstruction(ins, f".{shape} of .{element.name}; allowed is N 8 to 256 in steps of {step}")


def _immediates(ins: Instr, count: int, allowed: tuple[int, int], at: int) -> list[int]:
    found = [x.value for x in ins.operands[at : at + count] if isinstance(x, Imm)]
    if len(found) != count or not set(found) <= set(allowed):
        raise UnknownInstruction(ins, f"operands {', '.join(map(str, ins.operands[at:]))}")
    return found


@lru_cache(maxsize=4096)
def operand_chunks(
    bits: int, extent: int, element: ElementType, mn_major: bool, limit: int
) -> tuple[np.ndarray, Pattern]:
    """Return the 16-byte chunks of a matrix in a window of `limit` bytes, and its swizzle pattern.

    The rows are those of K or of M/N. extent: of M or N. Raises ValueError.
    """
    descriptor = MatrixDescriptor.decode_warpgroup(bits)
    if mn_major:
        chunks = descriptor.chunks(extent * element.bits // 8, 0, True, 8 * K_BYTES // element.bits)
    else:
        chunks = descriptor.chunks(extent, K_BYTES, False)
    low, high = int(chunks.min()) * CHUNK, int(chunks.max()) * CHUNK + CHUNK
    if high > limit:
        raise ValueError(
            f"matrix descriptor {bits:#018x} addresses bytes {low:#x} to {high - 1:#x} of a window of {limit:#x}"
        )
    return chunks, descriptor.pattern


@rewrites("wgmma.mma_async")
def _with_accumulator(instr: Instr) -> Instr:
    """Add D to the sources."""
    return replace(instr, operands=(instr.operands[0], *instr.operands))


@executes("wgmma.mma_async", dst=1, communicates=never_communicates)
def _multiply(ins: Instr) -> Action:
    """Multiply.

    Operands: D, D's earlier value, A (a descriptor or registers), B's descriptor, scale-d, signs, majors.
    """
    op = Product.of(ins)

    def run(warp: Warp, mask: Any, d: Any, a: Any, b: Any, scale: Any, *_signs: int) -> np.ndarray:
        _check_converged(ins, warp, mask)
        _check_same_instruction(ins, warp)
        accumulates = same(scale, mask)
        if accumulates is None:
            raise DescriptorError(f"{ins.opcode}: scale-d differs between lanes", ins, warp)
        me = products(warp).access(ins)
        right = op.read(warp, me, _descriptor(ins, warp, b), "B")
        left = (
            warp_matrices.a_matrix(matrix(a), op.a)
            if op.a_in_registers
            else op.read(warp, me, _descriptor(ins, warp, a), "A")
        )
        before = op.accumulator(matrix(d)) if accumulates else None
        result = op.sum(left.T, right, before, warp.cta.launch.numerics)
        warp.cta.launch.stats.mma_flops += 2 * ROWS_A_WARP * op.n * op.k
        return op.to_registers(result)

    return run


def _descriptor(ins: Instr, warp: Warp, value: Any) -> int:
    bits = same(value, None)
    if bits is None:
        raise DescriptorError(f"{ins.opcode}: lanes name different matrix descriptors", ins, warp)
    return bits


def _check_converged(ins: Instr, warp: Warp, mask: Any) -> None:
    """Check that all lanes execute it and that the warp is in a complete group of four warps."""
    if mask is not None:
        report_unconverged(ins, warp, mask, aligned=True)
    if warp.index | WARPS - 1 >= warp.cta.launch.warps:
        what = f"{ins.opcode} in {warp}, which is in no group of four warps: the CTA has {warp.cta.launch.warps}"
        raise BarrierError(what, ins, warp)


def _check_same_instruction(ins: Instr, warp: Warp) -> None:
    """Report a wgmma that differs from the one that another of the four warps executed at the same position."""
    made, count = warpgroup(warp).products, products(warp).count
    if count == len(made):
        made.append(ins)
    elif made[count] is not ins:
        other = f"another of its four warps executes that of PTX line {made[count].line}"
        warp.cta.launch.report(BarrierError(f"{ins.opcode} in {warp}, where {other}", ins, warp))


@executes("wgmma.fence", blocking=True, communicates=never_communicates)
def _fence(ins: Instr) -> Action:
    """Wait for the four warps, as an H200 does. PTX does not say so: at level `formal` it orders nothing."""
    Modifiers(ins).pick({"sync"}, ALIGNED)

    def arrive(warp: Warp, mask: Any) -> tuple[Generation, NamedBarrier]:
        _check_converged(ins, warp, mask)
        barrier = warpgroup(warp)
        return barrier.arrive(warp, WARPS * LANES, ins), barrier

    def run(warp: Warp, mask: Any) -> Any:
        generation = meet(warp, ins, lambda: arrive(warp, mask))
        if generation is None:
            return BLOCK
        if not warp.cta.launch.enforces(Leniency.FENCE_OF_FOUR_WARPS):
            warp.acquire(generation.clock)
        return None

    return run


@performs("wgmma.commit_group", modifiers=({"sync"}, ALIGNED), communicates=never_communicates)
def _commit(ins: Instr, warp: Warp, mask: Any) -> None:
    _check_converged(ins, warp, mask)
    products(warp).commit()


@performs("wgmma.wait_group", modifiers=({"sync"}, ALIGNED), communicates=never_communicates)
def _wait(ins: Instr, warp: Warp, mask: Any, allowed: int) -> None:
    _check_converged(ins, warp, mask)
    products(warp).wait_for_all_but(allowed)
