"""Bytes of the keys in caches: encoding, exact meaning, and where keys lie in a page. Independent of the kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

GUARD_PAGES = 1  # of poison before the first page and after the last


@dataclass(frozen=True)
class Bf16:
    """A key is head_dim bf16, one key after another."""

    def encode(self, values: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
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


class V4:
    """DeepSeek-V4: 448 e4m3 codes and 64 bf16 a key, for all keys of a page; then 7 ue8m0 and a byte of padding a key.

    A scale is for 64 columns. Rows as `encode` returns them have their own 8 bytes behind them.
    """

    codes, columns, group, key_bytes, scale_bytes = 448, 512, 64, 576, 8
    largest = 448.0
    nan = 0xFF  # of a scale; as a code, and in both bytes of a bf16, too

    def encode(self, values: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the bytes of keys [S, bytes] and what they mean [S, head_dim] bf16, for values [S, head_dim].

        Scales are up to 8 times as large as they must be, so that some codes are subnormal.
        """
        groups = values[:, : self.codes].reshape(len(values), -1, self.group).double()
        least = (groups.abs().amax(2) / self.largest).clamp(min=2.0**-14).log2().ceil()
        exponents = least + torch.randint(0, 4, least.shape, generator=generator)
        codes = (groups / 2.0 ** exponents[..., None]).flatten(1).float().to(torch.float8_e4m3fn).view(torch.uint8)
        return self.meant(codes, (exponents + 127).to(torch.uint8), values[:, self.codes :].bfloat16())

    def meant(
        self, codes: torch.Tensor, scales: torch.Tensor, others: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the bytes of keys with these codes, scales [S, 7] and other columns, and what they mean in bf16."""
        factors = 2.0 ** (scales.double() - 127)
        exact = codes.view(torch.float8_e4m3fn).double() * factors.repeat_interleave(self.group, 1)
        padding = torch.full((len(codes), 1), self.nan, dtype=torch.uint8)
        rows = torch.cat([codes, others.contiguous().view(torch.uint8), scales, padding], 1)
        return rows, torch.cat([exact.bfloat16(), others], 1)

    def every_code(self, keys: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return `keys` keys that have all finite codes, and all finite scales from 37 keys on.

        Codes of the largest scales are at most 1, so that the product is finite in bf16.
        """
        scales = (torch.arange(keys * 7).view(keys, 7) % 255).to(torch.uint8)
        codes = (torch.arange(self.codes) + 11 * torch.arange(keys)[:, None]) % 256
        sign, size = codes & 0x80, codes & 0x7F
        size = size.where(size != 0x7F, 0).where(scales.repeat_interleave(self.group, 1) < 246, size.clamp(max=0x38))
        others = torch.arange(keys * 64).view(keys, 64).float().bfloat16()
        return self.meant((sign | size).to(torch.uint8), scales, others)

    def pages(self, rows: torch.Tensor, seen: torch.Tensor, size: int, gap: int, poison: float) -> torch.Tensor:
        """Return pages [P, size, 1, 584] with `poison` in keys that are not seen, and NaN in gaps and guards."""
        count, row = len(rows) // size, self.key_bytes + self.scale_bytes
        lost = torch.full((row,), self.nan, dtype=torch.uint8)
        if poison == poison:  # not NaN: 448 * 2^(exponent - 8.8) in codes, as much in bf16
            lost[: self.codes], lost[self.key_bytes :] = 0x7E, int(torch.tensor(poison).log2()) + 127 - 9
            lost[self.codes : self.key_bytes] = torch.full((64,), poison).bfloat16().view(torch.uint8)
        held = torch.where(seen[:, None], rows, lost).view(count, size, row)
        whole = torch.full((count + 2 * GUARD_PAGES, size * row + gap), self.nan, dtype=torch.uint8)
        pages = whole[GUARD_PAGES:-GUARD_PAGES]
        pages[:, : size * self.key_bytes] = held[..., : self.key_bytes].flatten(1)
        pages[:, size * self.key_bytes : size * row] = held[..., self.key_bytes :].flatten(1)
        return pages[:, : size * row].view(count, size, 1, row)


class V32:
    """DeepSeek-V3.2: 512 e4m3 codes, 4 fp32 scales of 128 columns each, and 64 bf16 a key, one key after another."""

    codes, columns, group, bytes = 512, 576, 128, 656
    largest = 448.0
    nan = 0xFF  # as a code, and in all bytes of a scale or a bf16

    def encode(self, values: torch.Tensor, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the bytes of keys [S, bytes] and what they mean [S, head_dim] bf16, for values [S, head_dim].

        Scales are no powers of two, and up to 8 times as large as they must be.
        """
        groups = values[:, : self.codes].reshape(len(values), -1, self.group).double()
        least = (groups.abs().amax(2) / self.largest).clamp(min=2.0**-14)
        scales = (least * 8 ** torch.rand(least.shape, generator=generator).double()).float()
        codes = (groups / scales[..., None]).flatten(1).float().to(torch.float8_e4m3fn).view(torch.uint8)
        return self.meant(codes, scales, values[:, self.codes :].bfloat16())

    def meant(
        self, codes: torch.Tensor, scales: torch.Tensor, others: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
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

    def every_code(self, keys: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return `keys` keys that have all finite codes, and scales of both signs from 2^-126 to 2^119."""
        number = torch.arange(keys * 4).view(keys, 4)
        mantissas = 1 + number * 0.6180339887 % 1
        scales = (mantissas.double() * 2.0 ** (number * 37 % 245 - 126).double() * (-1.0) ** number).float()
        codes = (torch.arange(self.codes) + 11 * torch.arange(keys)[:, None]) % 256
        codes = codes.where(codes & 0x7F != 0x7F, 0).to(torch.uint8)
        return self.meant(codes, scales, torch.arange(keys * 64).view(keys, 64).float().bfloat16())

    def pages(self, rows: torch.Tensor, seen: torch.Tensor, size: int, gap: int, poison: float) -> torch.Tensor:
        """Return pages [P, size, 1, 656] with `poison` in keys that are not seen, and NaN in gaps and guards."""
        count = len(rows) // size
        lost = torch.full((1, self.bytes), self.nan, dtype=torch.uint8)
        if poison == poison:  # not NaN
            codes = torch.full((1, self.codes), 0x7E, dtype=torch.uint8)  # 448
            others = torch.full((1, self.columns - self.codes), poison).bfloat16()
            lost, _ = self.meant(codes, torch.full((1, self.codes // self.group), poison / self.largest), others)
        whole = torch.full((count + 2 * GUARD_PAGES, size * self.bytes + gap), self.nan, dtype=torch.uint8)
        pages = whole[GUARD_PAGES:-GUARD_PAGES, : size * self.bytes]
        pages.copy_(torch.where(seen[:, None], rows, lost).view(count, -1))
        return pages.view(count, size, 1, self.bytes)


LAYOUTS: Mapping[str, Bf16 | V4 | V32] = {"bf16": Bf16(), "v4": V4(), "v32": V32()}
