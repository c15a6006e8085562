"""Base addresses of the state spaces in the generic address space. Global and parameter memory use host addresses."""

from typing import Final

SHARED_BASE: Final = 0x7FFE_0000_0000_0000
LOCAL_BASE: Final = 0x7FFD_0000_0000_0000
WINDOW_BYTES: Final = 1 << 32
