"""Bytes of the keys in caches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kernel.hardware import BF16_BYTES


@dataclass(frozen=True)
class KeyLayout:
    """The bytes of a key: e4m3 codes of its first columns, then bf16 of the others; a scale for `scale_columns` codes.

    scale_size: bytes of a scale, 1 (ue8m0) or 4 (fp32). page_scale_bytes: a page of N keys holds N keys, then N times
    so many bytes, the scales of a key and padding; 0: the scales are between the codes and the other columns.
    """

    code_columns: int
    columns: int
    scale_columns: int
    scale_size: int
    page_scale_bytes: int

    @property
    def others_offset(self) -> int:
        """First byte of the columns in bf16."""
        scales = self.code_columns // self.scale_columns * self.scale_size
        return self.code_columns + (0 if self.page_scale_bytes else scales)

    @property
    def key_bytes(self) -> int:
        """Bytes of a key without scales that are elsewhere in its page."""
        return self.others_offset + (self.columns - self.code_columns) * BF16_BYTES

    @property
    def bytes(self) -> int:
        """Bytes of a key with its scales."""
        return self.key_bytes + self.page_scale_bytes


#: DeepSeek-V4: 448 columns in FP8 and 64 rotary ones in bf16, 584 bytes a key.
V4 = KeyLayout(code_columns=448, columns=512, scale_columns=64, scale_size=1, page_scale_bytes=8)
#: DeepSeek-V3.2: 512 columns in FP8 and 64 rotary ones in bf16, 656 bytes a key.
V32 = KeyLayout(code_columns=512, columns=576, scale_columns=128, scale_size=4, page_scale_bytes=0)
#: Layouts of quantised keys, by their name in kernel.problem.Layout.
QUANTISED: Mapping[str, KeyLayout] = {"v4": V4, "v32": V32}
