"""The package that pip installs for an engine, beside modules of the engine that are called kernel, tests and bench."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

#: Names that vLLM 0.33 imports in one statement, and those of sglang-kernel 0.4.10.
ENGINE = """
import os, sys
import bench, kernel, tests
assert {each.__file__ for each in (bench, kernel, tests)} == {os.path.abspath(f"{name}.py") for name in
    ("bench", "kernel", "tests")}
from flash_mla.engines import redirect
redirect("vllm"), redirect("sglang")
from vllm.third_party.flashmla.flash_mla_interface import (
    FlashMLASchedMeta,
    flash_attn_varlen_func,
    flash_attn_varlen_kvpacked_func,
    flash_attn_varlen_qkvpacked_func,
    flash_mla_sparse_fwd,
    flash_mla_with_kvcache,
    get_mla_metadata,
)
from sgl_kernel.flash_mla import _flashmla_import_error, flash_mla_with_kvcache as of_sglang
if os.fork() == 0:
    import ptx_emulator, torch
    q, kv = torch.randn(2, 1, 8, 512).bfloat16(), torch.randn(3, 4, 1, 512).bfloat16()
    arguments = {"block_table": None, "cache_seqlens": None, "head_dim_v": 512}
    arguments |= {"indices": torch.arange(8, dtype=torch.int32).repeat(2, 1, 1)}
    def step(q, kv):
        schedule, _ = get_mla_metadata()
        return flash_mla_with_kvcache(q, kv, tile_scheduler_metadata=schedule, **arguments)[0]
    with ptx_emulator.emulate(), torch.no_grad():
        compiled = torch.compile(step, fullgraph=True, backend="aot_eager")(q, kv)
        schedule, _ = get_mla_metadata()
        direct, _ = of_sglang(q, kv, tile_scheduler_metadata=schedule, kv_format=None, descale_q=None, **arguments)
    os._exit(not torch.equal(compiled, direct))
assert os.wait()[1] == 0
"""


def run(*command: str | Path, cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_engine_s_imports_and_calls(installed: Path, tmp_path: Path) -> None:
    """torch and CuTeDSL are those of this environment: they are too large to install again."""
    (site,) = installed.glob("lib/python*/site-packages")
    assert not [each for each in ("kernel", "stages", "tests", "bench", "build.py") if (site / each).exists()]
    for name in ("kernel", "tests", "bench"):
        (tmp_path / f"{name}.py").touch()
    run(installed / "bin/python", "-c", ENGINE, cwd=tmp_path)
