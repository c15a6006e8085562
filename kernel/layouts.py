"""Bytes of the keys in caches."""

from __future__ import annotations

from dataclasses import dataclass

from kernel.hardware import BF16_BYTES


@dataclass(frozen=True)
class KeyLayout:
    """The bytes of a key: e4m3 codes of its first columns, then bf16 of the others, then scales elsewhere.

    A page of N keys holds N times `key_bytes`, then N times `scale_bytes`: a byte of ue8m0 for each `scale_columns`
    columns, and padding.
    """

    code_columns: int
    scale_columns: int
    columns: int
    scale_bytes: int

    @property
    def key_bytes(self) -> int:
        """Bytes of a key without its scales."""
        return self.code_columns + (self.columns - self.code_columns) * BF16_BYTES

    @property
    def bytes(self) -> int:
        """Bytes of a key with its scales."""
        return self.key_bytes + self.scale_bytes


#: DeepSeek-V4: 448 columns in FP8 and 64 rotary ones in bf16, 584 bytes a key.
V4 = KeyLayout(code_columns=448, scale_columns=64, columns=512, scale_bytes=8)
