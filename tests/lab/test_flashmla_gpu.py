"""The command line of the comparison with FlashMLA on a GPU, as far as it needs none."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from lab import flashmla_gpu


def test_a_library_that_is_not_there_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        flashmla_gpu.main([str(tmp_path / "libflashmla.so")])
    assert ended.value.code == 2
    assert "libflashmla.so is no file: build it with --build FLASHMLA CUTLASS" in capsys.readouterr().err


def test_a_build_without_nvcc_is_bad_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        flashmla_gpu.main(["library.so", "--build", "flashmla", "cutlass"])
    assert ended.value.code == 2
    assert "no nvcc in CUDA_HOME or PATH" in capsys.readouterr().err


def test_arguments_have_the_sizes_of_the_source() -> None:
    """Ints come first in each structure; pointers are aligned to eight bytes."""
    assert ctypes.sizeof(flashmla_gpu.Prefill) == 6 * 4 + 8 * 8
    assert ctypes.sizeof(flashmla_gpu.Cache) == 3 * 4 + 4 + 2 * 8
    assert ctypes.sizeof(flashmla_gpu.Decode) == 6 * 4 + 7 * 8 + 2 * 32
    assert ctypes.sizeof(flashmla_gpu.Dense) == 7 * 4 + 4 + 10 * 8
