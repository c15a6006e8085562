"""Bytes of the keys in caches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from kernel.hardware import BF16_BYTES
from kernel.problem import Layout

Code = Literal["e4m3", "e2m1"]
Scale = Literal["none", "ue8m0", "e4m3", "fp32"]
CODE_BITS: Mapping[Code, int] = {"e4m3": 8, "e2m1": 4}
SCALE_BYTES: Mapping[Scale, int] = {"none": 0, "ue8m0": 1, "e4m3": 1, "fp32": 4}


@dataclass(frozen=True)
class KeyLayout:
    """The bytes of a key: codes of its first columns, then bf16 of the others; a scale for `scale_columns` codes.

    code: e4m3, a byte each, or e2m1, two in a byte, the even column in the lower half. page_scale_bytes: a page of N
    keys holds N keys, then N times page_scale_bytes, the scales of a key and padding; 0: the scales are between the
    codes and the other columns.
    """

    code_columns: int
    columns: int
    scale_columns: int
    scale: Scale
    code: Code = "e4m3"
    page_scale_bytes: int = 0

    @property
    def code_bytes(self) -> int:
        """Bytes of the codes, which come first."""
        return self.code_columns * CODE_BITS[self.code] // 8

    @property
    def scale_size(self) -> int:
        """Bytes of a scale."""
        return SCALE_BYTES[self.scale]

    @property
    def has_others(self) -> bool:
        """True if the last columns are in bf16."""
        return self.code_columns < self.columns

    @property
    def others_offset(self) -> int:
        """First byte of the columns in bf16."""
        scales = self.code_columns // self.scale_columns * self.scale_size
        return self.code_bytes + (0 if self.page_scale_bytes else scales)

    @property
    def key_bytes(self) -> int:
        """Bytes of a key, without scales that are stored in another part of its page."""
        return self.others_offset + (self.columns - self.code_columns) * BF16_BYTES

    @property
    def bytes(self) -> int:
        """Bytes of a key with its scales."""
        return self.key_bytes + self.page_scale_bytes


#: DeepSeek-V4: 448 columns in FP8 and 64 rotary ones in bf16, 584 bytes a key.
V4 = KeyLayout(code_columns=448, columns=512, scale_columns=64, scale="ue8m0", page_scale_bytes=8)
#: DeepSeek-V3.2: 512 columns in FP8 and 64 rotary ones in bf16, 656 bytes a key.
V32 = KeyLayout(code_columns=512, columns=576, scale_columns=128, scale="fp32")
#: DeepSeek-V4.1: 512 columns in FP8, rotary ones as well, 528 bytes a key.
V41 = KeyLayout(code_columns=512, columns=512, scale_columns=32, scale="ue8m0")
#: DeepSeek-V4.1's compressed keys: 512 columns in FP4, 288 bytes a key.
V41_FP4 = KeyLayout(code_columns=512, columns=512, scale_columns=16, scale="e4m3", code="e2m1")
#: 512 columns in FP8 without scales: a scale of the whole cache is a factor of the logits and of the output.
E4M3 = KeyLayout(code_columns=512, columns=512, scale_columns=512, scale="none")
#: Layouts of quantised keys, by their names.
QUANTISED: Mapping[Layout, KeyLayout] = {
    "e4m3": E4M3,
    "v4": V4,
    "v32": V32,
    "v41": V41,
    "v41_fp4": V41_FP4,
    "v41_page_scales": replace(V41, page_scale_bytes=16),
    "v41_fp4_page_scales": replace(V41_FP4, page_scale_bytes=32),
}
