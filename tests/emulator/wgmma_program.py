"""A program that multiplies by wgmma twice, with operands and results laid out by CuTe's layouts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from canonical import Operand
from ptx_launch import aligned, launch
from tensor_layouts import Layout
from test_mma_sync_and_ldmatrix import codes

from emulator.machine.launch.launch import Numerics

WINDOW = 40 * 1024
B_START = 8 * 1024
CODES = {"none": 0, "128B": 1, "64B": 2, "32B": 3}
"""Swizzle codes in a descriptor."""
BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "b1": 1}
LAYOUTS_OF_A = {
    16: Layout(((4, 8, 4), (2, 2, 2)), ((128, 1, 16), (64, 8, 512))),
    32: Layout(((4, 8, 4), (2, 2)), ((64, 1, 16), (8, 256))),
    8: Layout(((4, 8, 4), (4, 2, 2)), ((256, 1, 16), (64, 8, 1024))),
    1: Layout(((4, 8, 4), (32, 2, 2)), ((2048, 1, 16), (64, 8, 8192))),
}
"""(thread, value) -> m + 64 k, by element bits: ALayout_64x16, ... in cute/atom/mma_traits_sm90_gmma.hpp."""


OVERWRITE = f"""bar.sync 0; mov.b32 %r6, 0; shl.b32 %r7, %r0, 4; add.s32 %r8, %r1, %r7;
{" ".join(f"st.shared.v4.b32 [%r8+{at}], {{%r6, %r6, %r6, %r6}};" for at in range(B_START, WINDOW, 2048))}
fence.proxy.async.shared::cta;"""
"""Code that fills B with zero bytes."""


@dataclass(frozen=True)
class Form:
    """A wgmma: N, the types of D, of A and of B, whether A is in registers, majors, swizzles, signs."""

    n: int
    to: str
    a: str
    b: str
    a_in_registers: bool = False
    a_mn_major: bool = False
    b_mn_major: bool = False
    a_swizzle: str = "128B"
    b_swizzle: str = "128B"
    signs: tuple[int, int] = (1, 1)
    suffix: str = ""

    def __str__(self) -> str:
        where = "registers" if self.a_in_registers else f"{'MK'[not self.a_mn_major]}-{self.a_swizzle}"
        parts = [f"n{self.n}", self.to, self.a, self.b, where, f"{'NK'[not self.b_mn_major]}-{self.b_swizzle}"]
        return "-".join(
            parts + ([str(self.signs)] if self.signs != (1, 1) else []) + ([self.suffix] * bool(self.suffix))
        )

    @property
    def k(self) -> int:
        return 256 // BITS[self.a]

    @property
    def spelling(self) -> str:
        end = ".and.popc" if self.a == "b1" else ""
        shape = f"m64n{self.n}k{self.k}{self.suffix}"
        return f"wgmma.mma_async.sync.aligned.{shape}.{self.to}.{self.a}.{self.b}{end}"

    @property
    def registers(self) -> int:
        return self.n // (4 if self.to == "f16" else 2)

    @property
    def layout_of_d(self) -> Layout:
        """(thread, value) -> m + 64 n: CLayout_64xN."""
        return Layout(((4, 8, 4), (2, 2, self.n // 8)), ((128, 1, 16), (64, 8, 512)))

    def placed(self) -> tuple[Operand, Operand]:
        return (
            _operand(BITS[self.a], 64, self.a_mn_major, self.a_swizzle, 0),
            _operand(BITS[self.b], self.n, self.b_mn_major, self.b_swizzle, B_START),
        )

    def operands(self) -> str:
        """Return the last operands: the signs, and the majors of operands in shared memory."""
        signs = "" if self.to == "s32" else f", {self.signs[0]}, {self.signs[1]}"
        majors = ""
        if BITS[self.a] == 16:
            majors = ("" if self.a_in_registers else f", {self.a_mn_major:d}") + f", {self.b_mn_major:d}"
        return signs + majors

    def program(self, flight: str | None = None) -> str:
        """Return a program: D = A B, then D += A B, with D's registers before and after in global memory.

        They are [registers, 128]. flight: add fifteen MMAs, this code, and zeros in B before the last wait.
        """
        d = ", ".join(f"%d{i}" for i in range(self.registers))
        a = "{%x0, %x1, %x2, %x3}" if self.a_in_registers else "%q4"
        load_a = "".join(f"ld.global.b32 %x{i}, [%a1+{512 * i}];" for i in range(4)) if self.a_in_registers else ""
        loads = "".join(f"ld.global.b32 %d{i}, [%a2+{512 * i}];" for i in range(self.registers))
        stores = "".join(f"st.global.b32 [%a2+{512 * i}], %d{i};" for i in range(self.registers))
        product = f"{self.spelling} {{{d}}}, {a}, %q5, SCALE{self.operands()};"
        return f""".version 8.8
.target sm_90a
.address_size 64
.visible .entry product(.param .u64 image, .param .u64 a, .param .u64 d, .param .u32 first)
.reqntid 128, 1, 1
{{
.reg .pred %p<4>; .reg .b32 %d<128>; .reg .b32 %x<4>; .reg .b32 %r<9>; .reg .b64 %q<9>; .reg .b64 %a<4>;
.shared .align 1024 .b8 window[{WINDOW}]; .shared .align 8 .b8 full[8];
ld.param.b64 %a0, [image]; ld.param.b64 %a1, [a]; ld.param.b64 %a2, [d]; ld.param.u32 %r5, [first];
mov.u32 %r0, %tid.x; mul.wide.u32 %q0, %r0, 4; add.s64 %a1, %a1, %q0; add.s64 %a2, %a2, %q0;
mov.b32 %r1, window; mov.b32 %r2, full; setp.eq.b32 %p0, %r0, 0;
@%p0 mbarrier.init.shared.b64 [%r2], 1; @%p0 fence.mbarrier_init.release.cluster; bar.sync 0;
@%p0 mbarrier.arrive.expect_tx.shared.b64 _, [%r2], {WINDOW};
@%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%a0], {WINDOW}, [%r2];
FULL: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], 0; @!%p1 bra FULL;
shr.u32 %r3, %r1, 4; cvt.u64.u32 %q3, %r3;
or.b64 %q4, %q3, {self.descriptor(0):#x}; add.s32 %r4, %r3, {B_START >> 4}; cvt.u64.u32 %q5, %r4;
or.b64 %q5, %q5, {self.descriptor(1):#x};
setp.ne.b32 %p2, %r5, 0; setp.eq.b32 %p3, %r0, %r0;
{load_a}
{loads}
wgmma.fence.sync.aligned;
{product.replace("SCALE", "%p2")}
{product.replace("SCALE", "%p3")}
{product.replace("SCALE", "%p3") * 15 if flight is not None else ""}
wgmma.commit_group.sync.aligned;
{flight + OVERWRITE if flight is not None else ""}
wgmma.wait_group.sync.aligned 0;
{stores}
ret;
}}
"""

    def descriptor(self, which: int) -> int:
        """Return the descriptor without the address."""
        placed, swizzle = self.placed()[which], (self.a_swizzle, self.b_swizzle)[which]
        return replace(placed, start=0).descriptor & ((1 << 46) - 1) | CODES[swizzle] << 62

    def run(
        self,
        a: np.ndarray,
        b: np.ndarray,
        d: np.ndarray,
        first: bool,
        numerics: Numerics = "fp32",
        flight: str | None = None,
    ) -> np.ndarray:
        """Run the MMAs on bits of A [64, k], B [n, k] and D [64, n]; return D. first: the first MMA adds to D."""
        image = aligned(np.full(WINDOW, 0xAB, np.uint8))
        in_registers = self.fragments(a, LAYOUTS_OF_A[BITS[self.a]], BITS[self.a])
        for placed, values in zip(self.placed(), (a, b), strict=True):
            _lay(image, placed, values)
        out = self.fragments(d, self.layout_of_d, 16 if self.to == "f16" else 32)
        launch(self.program(flight), [image, in_registers, out, int(first)], block=(128, 1, 1), numerics=numerics)
        words = np.ascontiguousarray(out.T).view(d.dtype)
        back = np.zeros(d.size, d.dtype)
        back[places(self.layout_of_d, words.shape[1])] = words
        return back.reshape(self.n, 64).T

    def fragments(self, values: np.ndarray, layout: Layout, bits: int) -> np.ndarray:
        """Return the registers of each thread for a matrix [m, k]: uint32[registers, 128]."""
        taken = values.T.ravel()[places(layout, values.size // 128)]
        if bits == 1:
            taken = np.packbits(taken.astype(np.uint8), axis=1, bitorder="little")
        return np.ascontiguousarray(np.ascontiguousarray(taken).view(np.uint32).T)


@cache
def places(layout: Layout, values: int) -> np.ndarray:
    """Return where a layout places the values of each of the 128 threads."""
    return np.array([[layout(t, v) for v in range(values)] for t in range(128)])


def _operand(bits: int, mn: int, mn_major: bool, swizzle: str, start: int) -> Operand:
    """Lay out a compact operand: core matrices are contiguous along MN. 1-bit elements are placed by bytes."""
    bits, k = max(bits, 8), 256 // max(bits, 8)
    span = {"none": 16, "32B": 32, "64B": 64, "128B": 128}[swizzle]
    if mn_major:
        inner = 8 * span
        return Operand(bits, mn, k, True, swizzle, start, inner * max(k // 8, 1), inner)
    return Operand(bits, mn, k, False, swizzle, start, 8 * span * (2 if swizzle == "none" else 1), 128)


def _lay(image: np.ndarray, placed: Operand, values: np.ndarray) -> None:
    size = placed.bits // 8
    if values.shape[1] != placed.k:
        values = np.packbits(values.astype(np.uint8), axis=1, bitorder="little")
    image.view(f"u{size}")[placed.byte() // size] = values


def bits_of(values: np.ndarray, kind: str) -> np.ndarray:
    """Return numbers as the bits of a type."""
    return values.astype(np.uint8) if kind == "b1" else codes(values, kind)


def exact(form: Form, a: np.ndarray, b: np.ndarray, d: np.ndarray, first: bool) -> np.ndarray:
    """Return the exact integer result."""
    product = form.signs[0] * form.signs[1] * a.astype(np.int64) @ b.astype(np.int64).T
    return 2 * product + (d if first else 0)


FORMS = [
    *(Form(n, "f32", "bf16", "bf16") for n in range(8, 257, 8)),
    *(Form(n, "f16", "f16", "f16", b_mn_major=True, b_swizzle="none") for n in (8, 24, 256)),
    *(
        Form(64, "f32", "f16", "f16", False, a, b, x, y)
        for a in (False, True)
        for b in (False, True)
        for x, y in (("none", "32B"), ("64B", "none"), ("32B", "128B"), ("128B", "64B"))
    ),
    *(
        Form(n, to, "f16", "f16", True, False, mn, signs=(1, -1))
        for n, to, mn in ((32, "f32", True), (64, "f16", False))
    ),
    Form(96, "f32", "bf16", "bf16", True, signs=(-1, 1)),
    Form(16, "f32", "bf16", "bf16", False, True, False, "64B", "32B", (-1, -1)),
    *(
        Form(n, "f32", "tf32", "tf32", r, a_swizzle=s, b_swizzle=s)
        for n, r, s in ((8, False, "none"), (40, True, "64B"), (256, False, "128B"))
    ),
    *(
        Form(n, to, a, b, r)
        for n, to, r in ((8, "f32", True), (128, "f32", False), (248, "f16", False), (64, "f16", True))
        for a in ("e4m3", "e5m2")
        for b in ("e4m3", "e5m2")
    ),
    *(
        Form(n, "s32", a, b, r, a_swizzle="32B", b_swizzle=s)
        for n, r, s in ((8, True, "none"), (24, False, "64B"), (240, False, "128B"))
        for a in ("s8", "u8")
        for b in ("s8", "u8")
    ),
    Form(32, "s32", "s8", "u8", suffix=".satfinite"),
    *(Form(n, "s32", "b1", "b1", r) for n, r in ((8, False), (128, True), (256, False))),
]
