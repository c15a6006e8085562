"""The choice of the chip: by the variable, or late, by the GPU of a call."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

import kernel
from emulator.bridge.patches import ORIGINAL_ENVIRONMENT
from harness.paths import ROOT
from kernel.checks import check_device
from kernel.chips import chip, chip_of
from kernel.sm90.config import HopperConfig


def test_the_variable_chooses_the_chip(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = kernel.Problem(head_dim=64, heads=64, keys=128)
    for arch, kind in (("sm_90a", HopperConfig), ("sm_100a", kernel.FmhaConfig), ("sm_103a", kernel.FmhaConfig)):
        monkeypatch.setenv("CUTE_DSL_ARCH", arch)
        assert type(config := kernel.configuration(problem)) is kind
        assert chip_of(config).arch == arch
    for arch in ("sm_80", "sm_100", "sm_120a"):
        monkeypatch.setenv("CUTE_DSL_ARCH", arch)
        with pytest.raises(kernel.ArgumentError, match="sm_90a, sm_100a or sm_103a"):
            kernel.configuration(problem)


def test_the_gpu_of_a_call_chooses_the_chip(monkeypatch: pytest.MonkeyPatch) -> None:
    """One process serves GPUs of two generations, and code for 10.0 does not load on 10.3."""
    monkeypatch.delenv("CUTE_DSL_ARCH")
    capabilities = {"cuda:0": (9, 0), "cuda:1": (10, 0), "cuda:2": (10, 3), "cuda:3": (12, 0), "cuda:4": (8, 0)}
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capabilities[str(device)])
    problem = kernel.Problem(head_dim=64, heads=64, keys=128)
    chosen = [kernel.configuration(problem, torch.device("cuda", i)) for i in range(2)]
    assert [(type(each), chip_of(each).arch, chip_of(each).sms) for each in chosen] == [
        (HopperConfig, "sm_90a", 132),
        (kernel.FmhaConfig, "sm_100a", 148),
    ]
    for i in (2, 3, 4):
        with pytest.raises(
            kernel.ArgumentError, match=rf"q\.device is cuda:{i}, of compute capability .*9\.0 .* 10\.0"
        ):
            kernel.configuration(problem, torch.device("cuda", i))
    for arch, runs in (("sm_90a", [0]), ("sm_100a", [1]), ("sm_103a", [2]), ("sm_100f", [1, 2])):
        monkeypatch.setenv("CUTE_DSL_ARCH", arch)
        assert [i for i, found in enumerate(capabilities.values()) if chip().runs_on(found)] == runs
    with pytest.raises(kernel.ArgumentError, match=r"q\.device is cuda:3.* runs sm_100f"):
        check_device(torch.device("cuda", 3), chip())


NO_CUDA = """
import os, torch
import cuda.bindings.driver as driver
def touched(*_): raise AssertionError("importing initialises CUDA")
torch.cuda.init = torch.cuda.is_available = torch.cuda.device_count = torch.cuda.get_device_capability = touched
driver.cuInit = touched
import flash_mla, kernel
assert "CUTE_DSL_ARCH" not in os.environ
if os.fork() == 0:
    torch.cuda.get_device_capability = lambda device: (9, 0)
    problem = kernel.Problem(head_dim=64, heads=64, keys=128)
    os._exit("sm90" not in kernel.configuration(problem, torch.device("cuda:0")).name)
assert os.wait()[1] == 0
"""


def test_importing_initialises_no_cuda() -> None:
    """A process that initialised CUDA cannot be forked, as engines fork their workers."""
    environment = {name: value for name, value in ORIGINAL_ENVIRONMENT.items() if name != "CUTE_DSL_ARCH"}
    subprocess.run([sys.executable, "-c", NO_CUDA], cwd=ROOT, env=environment, check=True)
