"""Redirection of engines: they import FlashMLA's calls from modules of their own, which are replaced here."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from flash_mla import flash_mla_interface as calls
from flash_mla.checks import asserts

MODULES = {"vllm": "vllm.third_party.flashmla.flash_mla_interface", "sglang": "sgl_kernel.flash_mla"}
FORMATS = (None, "V32", "V4", "V41")  # SGLang's kv_format; the bytes of a key say the same
POSITIONAL = 9  # first arguments that both calls have


def redirect(engine: str) -> ModuleType:
    """Make an engine that is imported later in this process call this kernel. engine: "vllm" or "sglang".

    Raises RuntimeError if the engine has its own calls already, and ValueError for another engine.
    """
    if engine not in MODULES:
        raise ValueError(f"engine is {engine!r}; allowed: {', '.join(map(repr, MODULES))}")
    name = MODULES[engine]
    if (found := sys.modules.get(name)) is not None and getattr(found, "redirected_to", None) != __package__:
        raise RuntimeError(f"{name} is imported already; call redirect({engine!r}) before anything imports {engine}")
    module = ModuleType(name, f"Calls of {__package__} in place of those of {engine}.")
    vars(module).update({each: getattr(calls, each) for each in calls.__all__}, redirected_to=__package__)
    if engine == "sglang":
        vars(module).update(flash_mla_with_kvcache=of_sglang, _flashmla_import_error=None)
    sys.modules[name] = module
    return module


def of_sglang(
    *args: Any, descale_q: None = None, descale_k: None = None, kv_format: str | None = None, **options: Any
) -> Any:
    """Make SGLang's call, which has three arguments more, the first two before is_fp8_kvcache."""
    asserts(len(args) <= POSITIONAL, "positional arguments", len(args), f"{POSITIONAL}, the others by name")
    asserts(descale_q is None and descale_k is None, "descale_q or descale_k", "given", "None: scales are in the cache")
    asserts(kv_format in FORMATS, "kv_format", repr(kv_format), f"one of {FORMATS}")
    return calls.flash_mla_with_kvcache(*args, **options)
