"""The B200: what a warp, a thread, a CTA, an SM and the whole device have."""

from __future__ import annotations

from typing import Final

LANES: Final = 32
"""Of a warp."""
MAX_REGISTERS_A_THREAD: Final = 255
REGISTER_STEP: Final = 8
"""setmaxnreg counts registers of a thread in these steps."""

MAX_THREADS_A_CTA: Final = 1024
NAMED_BARRIERS: Final = 16
TMEM_LANES, TMEM_COLUMNS = 128, 512
RESERVED_SHARED_BYTES: Final = 1024
"""Of a CTA's shared memory, the first, which are not the program's."""
MAX_SHARED_BYTES_A_CTA: Final = 227 * 1024
"""Without the reserved ones."""

SMS: Final = 148
CTAS_AN_SM: Final = 32
THREADS_AN_SM: Final = 2048
REGISTERS_AN_SM: Final = 64 * 1024
SHARED_BYTES_AN_SM: Final = 228 * 1024
SHARED_BANKS, BANK_BYTES = 32, 4

COMPUTE_CAPABILITY: Final = (10, 0)
L2_BYTES: Final = 126 * 1024 * 1024
SM_CLOCK_KHZ, MEMORY_CLOCK_KHZ = 1_965_000, 3_996_000
MEMORY_BUS_BITS: Final = 8192
