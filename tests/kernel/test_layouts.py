"""P's way through shared memory, from the traced layouts alone: where it is stored is where the second product reads.

The oracle is tensor-layouts' layout algebra and the matrix-descriptor formula of the PTX manual, as
lab/layout.py has them.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import kernel
from lab.layout import SBO, Traced, read_at, stored_at

BF16 = 2
STORE_BYTES = 16
BANKS, BANK_BYTES, WARP = 32, 4, 32


@pytest.fixture(
    scope="module",
    params=[64, *(pytest.param(hd, marks=pytest.mark.long) for hd in (128, 256)), 512],
    ids="hd{}".format,
)
def traced(request: pytest.FixtureRequest) -> Traced:
    compiled = kernel.compile(kernel.FmhaConfig(head_dim=request.param, p_path="smem"))
    return Traced.of(compiled)


def test_every_byte_of_p_is_stored_once(traced: Traced) -> None:
    stored = np.sort(stored_at(traced).ravel())
    np.testing.assert_array_equal(stored, BF16 * np.arange(stored.size))


def test_the_second_product_reads_what_was_stored(traced: Traced) -> None:
    np.testing.assert_array_equal(stored_at(traced), read_at(traced))


def test_the_descriptor_is_the_one_assumed(traced: Traced) -> None:
    """128-byte swizzle, SBO 1024: the constant stands in the PTX, or'ed with an address."""
    words = {int(word) for word in re.findall(r"(?:or\.b64|add\.s64).*?, (\d{15,});", traced.compiled.ptx)}
    high = {word >> 32 for word in words}
    assert 2 << 29 | 1 << 14 | SBO >> 4 in high, [hex(word) for word in words]


def test_a_thread_owns_whole_vectors_of_its_row(traced: Traced) -> None:
    keys = [traced.layout("tLcS")(i) for i in range(traced.config.block_n // traced.config.variant.threads_per_row)]
    assert keys == list(range(len(keys)))


def test_stores_have_no_bank_conflicts_beyond_the_minimum(traced: Traced) -> None:
    """A warp stores 512 bytes at once: four passes over the 32 banks are the least, eight lanes each."""
    stored = stored_at(traced)
    rows_of_warp = traced.config.block_m // 4
    keys_of_thread = traced.config.block_n // traced.config.variant.threads_per_row
    for warp in range(4):
        for vector in range(0, keys_of_thread, STORE_BYTES // BF16):
            lanes = np.arange(WARP)
            rows = warp * rows_of_warp + lanes % rows_of_warp
            address = stored[rows, lanes // rows_of_warp * keys_of_thread + vector]
            assert (address % STORE_BYTES == 0).all()
            for quarter in address.reshape(4, 8):
                banks = (quarter[:, None] // BANK_BYTES + np.arange(STORE_BYTES // BANK_BYTES)) % BANKS
                assert len(np.unique(banks)) == BANKS, f"warp {warp}, keys {vector}.., banks {sorted(banks.ravel())}"
