"""Bytes of the keys in caches: encoding, exact meaning, and where keys lie in a page. Independent of the kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

GUARD_PAGES = 1  # of poison before the first page and after the last
Encoded = tuple[torch.Tensor, torch.Tensor]
"""The bytes of keys, and what they mean in bf16."""


@dataclass(frozen=True)
class Bf16:
    """A key is head_dim bf16, one key after another."""

    def encode(self, values: torch.Tensor, generator: torch.Generator) -> Encoded:
        """Return the bytes of keys [S, bytes] and what they mean [S, head_dim] bf16, for values [S, head_dim]."""
        keys = values.bfloat16()
        return keys.view(torch.uint8), keys

    def pages(self, rows: torch.Tensor, seen: torch.Tensor, size: int, gap: int, poison: float) -> torch.Tensor:
        """Return pages [P, size, 1, head_dim] with `poison` in keys that are not seen, in gaps and in guards.

        gap: bytes after each page.
        """
        keys = torch.where(seen[:, None], rows.view(torch.bfloat16), torch.tensor(poison).bfloat16())
        head_dim, page = keys.shape[1], size * keys.shape[1] + gap // 2
        count = len(keys) // size
        whole = torch.full((count + 2 * GUARD_PAGES, page), poison, dtype=torch.bfloat16)
        pages = whole[GUARD_PAGES:-GUARD_PAGES]
        pages[:, : size * head_dim] = keys.view(count, -1)
        return pages[:, : size * head_dim].view(count, size, 1, head_dim)


class PowersOfTwo:
    """Layouts of e4m3 codes with ue8m0 scales, which are powers of two."""

    codes: int  # columns that are codes
    columns: int
    group: int  # columns of a scale
    largest = 448.0  # value of a code

    def encode(self, values: torch.Tensor, generator: torch.Generator) -> Encoded:
        """Return the bytes of keys [S, bytes] and what they mean [S, head_dim] bf16, for values [S, head_dim].

        Scales are up to 8 times as large as they must be, so that some codes are subnormal.
        """
        groups = values[:, : self.codes].reshape(len(values), -1, self.group).double()
        least = (groups.abs().amax(2) / self.largest).clamp(min=2.0**-14).log2().ceil()
        exponents = least + torch.randint(0, 4, least.shape, generator=generator)
        codes = (groups / 2.0 ** exponents[..., None]).flatten(1).float().to(torch.float8_e4m3fn).view(torch.uint8)
        return self.meant(codes, (exponents + 127).to(torch.uint8), values[:, self.codes :].bfloat16())

    def meant(self, codes: torch.Tensor, scales: torch.Tensor, others: torch.Tensor) -> Encoded:
        """Return the bytes of keys with these codes, scales and other columns, and what they mean in bf16."""
        raise NotImplementedError

    def product(self, codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        """Return codes times scales in bf16, rounded once."""
        factors = (2.0 ** (scales.double() - 127)).repeat_interleave(self.group, 1)
        return (codes.view(torch.float8_e4m3fn).double() * factors).bfloat16()

    def every_code(self, keys: int) -> Encoded:
        """Return `keys` keys that have all finite codes, and all finite scales from 255 of them on.

        Codes of the largest scales are at most 1, so that the product is finite in bf16.
        """
        a_key, others = self.codes // self.group, self.columns - self.codes
        scales = (torch.arange(keys * a_key).view(keys, a_key) % 255).to(torch.uint8)
        scales[-1], scales[-1, 3] = 100, 200  # the last byte of a word alone is above 1
        # For an index that names no key, the kernel may load the first bytes as scales: 135 times 2^120 is infinite.
        codes = (135 + torch.arange(self.codes) + 11 * torch.arange(keys)[:, None]) % 256
        sign, size = codes & 0x80, codes & 0x7F
        size = size.where(size != 0x7F, 0).where(scales.repeat_interleave(self.group, 1) < 246, size.clamp(max=0x38))
        bf16 = torch.arange(keys * others).view(keys, others).float().bfloat16()
        return self.meant((sign | size).to(torch.uint8), scales, bf16)

    def scale_of_448(self, value: float) -> int:
        """Return the scale that gives a code of 448 the size of `value`."""
        return int(torch.tensor(value).log2()) + 127 - 9


class V4(PowersOfTwo):
    """DeepSeek-V4: 448 e4m3 codes and 64 bf16 a key, for all keys of a page; then 7 ue8m0 and a byte of padding a key.

    A scale is for 64 columns. Rows as `encode` returns them have their own 8 bytes behind them.
    """

    codes, columns, group, key_bytes, scale_bytes = 448, 512, 64, 576, 8
    nan = 0xFF  # of a scale; as a code, and in both bytes of a bf16, too

    def meant(self, codes: torch.Tensor, scales: torch.Tensor, others: torch.Tensor) -> Encoded:
        """Return the bytes of keys with these codes, scales [S, 7] and other columns, and what they mean in bf16."""
        padding = torch.full((len(codes), 1), self.nan, dtype=torch.uint8)
        rows = torch.cat([codes, others.contiguous().view(torch.uint8), scales, padding], 1)
        return rows, torch.cat([self.product(codes, scales), others], 1)

    def parts(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return codes, scales and other columns of keys from their bytes."""
        others = rows[:, self.codes : self.key_bytes].contiguous().view(torch.bfloat16)
        return rows[:, : self.codes], rows[:, self.key_bytes : -1], others

    def pages(self, rows: torch.Tensor, seen: torch.Tensor, size: int, gap: int, poison: float) -> torch.Tensor:
        """Return pages [P, size, 1, 584] with `poison` in keys that are not seen, and NaN in gaps and guards."""
        count, row = len(rows) // size, self.key_bytes + self.scale_bytes
        lost = torch.full((row,), self.nan, dtype=torch.uint8)
        if poison == poison:  # not NaN: 448 * 2^(exponent - 8.8) in codes, as much in bf16
            lost[: self.codes], lost[self.key_bytes :] = 0x7E, self.scale_of_448(poison)
            lost[self.codes : self.key_bytes] = torch.full((64,), poison).bfloat16().view(torch.uint8)
        held = torch.where(seen[:, None], rows, lost).view(count, size, row)
        whole = torch.full((count + 2 * GUARD_PAGES, size * row + gap), self.nan, dtype=torch.uint8)
        pages = whole[GUARD_PAGES:-GUARD_PAGES]
        pages[:, : size * self.key_bytes] = held[..., : self.key_bytes].flatten(1)
        pages[:, size * self.key_bytes : size * row] = held[..., self.key_bytes :].flatten(1)
        return pages[:, : size * row].view(count, size, 1, row)


class KeyAfterKey:
    """Layouts with all bytes of a key together. Codes come first, then scales, then columns in bf16."""

    codes: int  # columns that are codes
    columns: int
    group: int  # columns of a scale
    bytes: int
    largest: float  # value of a code
    nan = 0xFF  # in all bytes of codes, scales and bf16

    def meant(self, codes: torch.Tensor, scales: torch.Tensor, others: torch.Tensor) -> Encoded:
        """Return the bytes of keys with these codes, scales and other columns, and what they mean in bf16."""
        raise NotImplementedError

    def lost(self, poison: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the codes and scales of a key whose columns have the size of `poison`, which is not NaN."""
        raise NotImplementedError

    def pages(self, rows: torch.Tensor, seen: torch.Tensor, size: int, gap: int, poison: float) -> torch.Tensor:
        """Return pages [P, size, 1, bytes] with `poison` in keys that are not seen, and NaN in gaps and guards."""
        count = len(rows) // size
        lost = torch.full((1, self.bytes), self.nan, dtype=torch.uint8)
        if poison == poison:  # not NaN
            others = torch.full((1, self.columns - self.codes), poison).bfloat16()
            lost, _ = self.meant(*self.lost(poison), others)
        whole = torch.full((count + 2 * GUARD_PAGES, size * self.bytes + gap), self.nan, dtype=torch.uint8)
        pages = whole[GUARD_PAGES:-GUARD_PAGES, : size * self.bytes]
        pages.copy_(torch.where(seen[:, None], rows, lost).view(count, -1))
        return pages.view(count, size, 1, self.bytes)


class V32(KeyAfterKey):
    """DeepSeek-V3.2: 512 e4m3 codes, 4 fp32 scales of 128 columns each, and 64 bf16 a key."""

    codes, columns, group, bytes = 512, 576, 128, 656
    largest = 448.0

    def encode(self, values: torch.Tensor, generator: torch.Generator) -> Encoded:
        """Return the bytes of keys [S, bytes] and what they mean [S, head_dim] bf16, for values [S, head_dim].

        Scales are no powers of two, and up to 8 times as large as they must be.
        """
        groups = values[:, : self.codes].reshape(len(values), -1, self.group).double()
        least = (groups.abs().amax(2) / self.largest).clamp(min=2.0**-14)
        scales = (least * 8 ** torch.rand(least.shape, generator=generator).double()).float()
        codes = (groups / scales[..., None]).flatten(1).float().to(torch.float8_e4m3fn).view(torch.uint8)
        return self.meant(codes, scales, values[:, self.codes :].bfloat16())

    def meant(self, codes: torch.Tensor, scales: torch.Tensor, others: torch.Tensor) -> Encoded:
        """Return the bytes of keys with these codes, scales [S, 4] fp32 and other columns, and their meaning in bf16.

        The product of a code and its scale is rounded to fp32, then to bf16.
        """
        factors = scales.repeat_interleave(self.group, 1)
        rounded = (codes.view(torch.float8_e4m3fn).float() * factors).bfloat16()
        rows = torch.cat([codes, scales.view(torch.uint8), others.contiguous().view(torch.uint8)], 1)
        return rows, torch.cat([rounded, others], 1)

    def parts(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return codes, scales and other columns of keys from their bytes."""
        scales_end = self.codes + 4 * (self.codes // self.group)
        scales = rows[:, self.codes : scales_end].contiguous().view(torch.float32)
        return rows[:, : self.codes], scales, rows[:, scales_end:].contiguous().view(torch.bfloat16)

    def every_code(self, keys: int) -> Encoded:
        """Return `keys` keys that have all finite codes, and scales of both signs from 2^-126 to 2^119."""
        number = torch.arange(keys * 4).view(keys, 4)
        mantissas = 1 + number * 0.6180339887 % 1
        scales = (mantissas.double() * 2.0 ** (number * 37 % 245 - 126).double() * (-1.0) ** number).float()
        scales[2] = torch.tensor([2, -256, 0.5, -4])
        scales[[3, 22]] = torch.tensor([2.0, -4, 0, 128])  # powers of two up to 2^7 have code of their own on Hopper
        codes = (torch.arange(self.codes) + 11 * torch.arange(keys)[:, None]) % 256
        codes = codes.where(codes & 0x7F != 0x7F, 0).to(torch.uint8)
        return self.meant(codes, scales, torch.arange(keys * 64).view(keys, 64).float().bfloat16())

    def lost(self, poison: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Return codes of 448, and scales."""
        codes = torch.full((1, self.codes), 0x7E, dtype=torch.uint8)
        return codes, torch.full((1, self.codes // self.group), poison / self.largest)


class V41(PowersOfTwo, KeyAfterKey):
    """DeepSeek-V4.1: 512 e4m3 codes, then 16 ue8m0 of 32 columns each."""

    codes, columns, group, bytes = 512, 512, 32, 528

    def meant(self, codes: torch.Tensor, scales: torch.Tensor, others: torch.Tensor) -> Encoded:
        """Return the bytes of keys with these codes and scales [S, 16], and what they mean in bf16. others: [S, 0]."""
        return torch.cat([codes, scales], 1), self.product(codes, scales)

    def parts(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return codes, scales and no other columns of keys from their bytes."""
        return rows[:, : self.codes], rows[:, self.codes :], rows[:, :0].view(torch.bfloat16)

    def lost(self, poison: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Return codes of 448, and scales."""
        codes = torch.full((1, self.codes), 0x7E, dtype=torch.uint8)
        return codes, torch.full((1, self.codes // self.group), self.scale_of_448(poison), dtype=torch.uint8)


class V41Fp4(KeyAfterKey):
    """DeepSeek-V4.1's compressed keys: 512 e2m1 codes, the even column in the lower half of a byte, then 32 scales.

    A scale is e4m3, for 16 columns. `codes` as parameters and results have a byte for each column.
    """

    codes, columns, group, bytes = 512, 512, 16, 288
    largest = 6.0
    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=torch.float64)  # of the codes without sign

    def encode(self, values: torch.Tensor, generator: torch.Generator) -> Encoded:
        """Return the bytes of keys [S, bytes] and what they mean [S, head_dim] bf16, for values [S, head_dim].

        Scales are up to twice as large as they must be.
        """
        groups = values.reshape(len(values), -1, self.group).double()
        wanted = groups.abs().amax(2) / self.largest * 2 ** torch.rand(groups.shape[:2], generator=generator).double()
        scales = wanted.clamp(2.0**-9, 448).float().to(torch.float8_e4m3fn)
        sizes = groups.abs() / scales.double()[..., None]
        nearest = (sizes[..., None] - self.values).abs().argmin(3)
        codes = (nearest | (groups < 0).int() << 3).flatten(1).to(torch.uint8)
        return self.meant(codes, scales.view(torch.uint8), values[:, self.codes :].bfloat16())

    def meant(self, codes: torch.Tensor, scales: torch.Tensor, others: torch.Tensor) -> Encoded:
        """Return the bytes of keys with these codes and scales [S, 32], and what they mean in bf16. others: [S, 0]."""
        factors = scales.view(torch.float8_e4m3fn).double().repeat_interleave(self.group, 1)
        signed = self.values[(codes & 7).long()] * (1 - 2 * (codes >> 3).double())
        return torch.cat([codes[:, ::2] | codes[:, 1::2] << 4, scales], 1), (signed * factors).bfloat16()

    def parts(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return codes, scales and no other columns of keys from their bytes."""
        packed = rows[:, : self.codes // 2]
        codes = torch.stack([packed & 0xF, packed >> 4], 2).flatten(1)
        return codes, rows[:, self.codes // 2 :], rows[:, :0].view(torch.bfloat16)

    def every_code(self, keys: int) -> Encoded:
        """Return `keys` keys that have all codes, each with all finite scales of both signs from 8 keys on."""
        scales = torch.arange(keys * 32).view(keys, 32) % 256
        codes = torch.arange(self.codes).repeat(keys, 1) % 16
        return self.meant(codes.to(torch.uint8), scales.where(scales & 0x7F != 0x7F, 0).to(torch.uint8), codes[:, :0])

    def lost(self, poison: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Return codes of 6 and the largest scale: larger values do not exist."""
        codes = torch.full((1, self.codes), 7, dtype=torch.uint8)
        return codes, torch.full((1, self.codes // self.group), 0x7E, dtype=torch.uint8)


class E4m3(KeyAfterKey):
    """512 e4m3 codes a key, without scales."""

    codes, columns, group, bytes = 512, 512, 512, 512
    largest = 448.0

    def encode(self, values: torch.Tensor, generator: torch.Generator) -> Encoded:
        """Return the bytes of keys [S, bytes] and what they mean [S, head_dim] bf16, for values [S, head_dim]."""
        codes = values.float().to(torch.float8_e4m3fn)
        return self.meant(codes.view(torch.uint8), values[:, :0], values[:, :0])

    def meant(self, codes: torch.Tensor, scales: torch.Tensor, others: torch.Tensor) -> Encoded:
        """Return the bytes of keys with these codes, and what they mean in bf16. scales, others: [S, 0]."""
        return codes, codes.view(torch.float8_e4m3fn).bfloat16()

    def parts(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return codes of keys from their bytes, no scales, and no other columns."""
        return rows, rows[:, :0], rows[:, :0].view(torch.bfloat16)

    def every_code(self, keys: int) -> Encoded:
        """Return `keys` keys that have all finite codes."""
        codes = (torch.arange(self.codes) + 11 * torch.arange(keys)[:, None]) % 256
        codes = codes.where(codes & 0x7F != 0x7F, 0).to(torch.uint8)
        return self.meant(codes, codes[:, :0], codes[:, :0])

    def lost(self, poison: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Return codes of 448: larger values do not exist."""
        return torch.full((1, self.codes), 0x7E, dtype=torch.uint8), torch.zeros(1, 0)


class PageScales(KeyAfterKey):
    """Layouts whose pages hold the codes of all keys, then their scales. Rows as `encode` returns them have both."""

    def pages(self, rows: torch.Tensor, seen: torch.Tensor, size: int, gap: int, poison: float) -> torch.Tensor:
        """Return pages [P, size, 1, bytes] with `poison` in keys that are not seen, and NaN in gaps and guards."""
        pages = super().pages(rows, seen, size, gap, poison)
        end = self.bytes - self.codes // self.group
        parts = pages[..., :end].flatten(1), pages[..., end:].flatten(1)
        return pages.copy_(torch.cat(parts, 1).view(pages.shape))


class V41PageScales(PageScales, V41):
    """DeepSeek-V4.1's keys in pages as of V4."""


class V41Fp4PageScales(PageScales, V41Fp4):
    """DeepSeek-V4.1's compressed keys in pages as of V4."""


Layout = Bf16 | E4m3 | V4 | V32 | V41 | V41Fp4
LAYOUTS: Mapping[str, Layout] = {
    "bf16": Bf16(),
    "e4m3": E4m3(),
    "v4": V4(),
    "v32": V32(),
    "v41": V41(),
    "v41_fp4": V41Fp4(),
    "v41_page_scales": V41PageScales(),
    "v41_fp4_page_scales": V41Fp4PageScales(),
}
