"""The table of CUDA's C prototypes."""

from __future__ import annotations

import ctypes

import pytest

from emulator.bridge.prototypes import TABLE, prototype
from tests.emulator import prototypes


def test_the_table_is_what_cuda_bindings_declares() -> None:
    pytest.importorskip("cuda.bindings")
    assert TABLE.read_text() == prototypes.table(), "run python -m tests.emulator.prototypes"


def test_a_version_has_its_own_prototype_or_that_of_the_function() -> None:
    assert len(prototype("cuStreamGetCaptureInfo_v2").parameters) == 6
    assert len(prototype("cuStreamGetCaptureInfo_v3").parameters) == 7
    assert prototype("cuMemAlloc_v2") == (ctypes.c_int32, (ctypes.c_size_t, ctypes.c_uint64))
    with pytest.raises(KeyError, match="cuMemAlloc_w2"):
        prototype("cuMemAlloc_w2")
