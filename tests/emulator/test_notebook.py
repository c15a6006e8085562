"""Results in notebooks: HTML that is well-formed and escapes quoted text."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
from debug_programs import GEMM

import emulator

ARGUMENTS = (np.zeros(2048, np.uint16), np.zeros(512, np.uint16), np.zeros((128, 32), np.float32))


def texts(html: str) -> list[str]:
    """Return the texts of the elements of an HTML fragment."""
    return [text for text in ElementTree.fromstring(f"<div>{html}</div>").itertext() if text.strip()]


def test_a_result_and_its_findings() -> None:
    with emulator.emulate():
        result = emulator.launch(GEMM.replace("tcgen05.wait::ld.sync.aligned;", ""), None, ARGUMENTS, block=192)
    shown = texts(result._repr_html_())
    assert "gemm" in shown and "formal" in shown
    assert any(text.startswith("MissingWait: st uses %r30") for text in shown)


def test_a_prediction() -> None:
    with emulator.emulate(clock="b200"):
        result = emulator.launch(GEMM, None, ARGUMENTS, block=192)
    shown = texts(result._repr_html_())
    assert any("predicted" in text for text in shown) and "assumptions" in shown


def test_names_are_escaped() -> None:
    """A kernel's name may hold what HTML means otherwise."""
    with emulator.emulate():
        result = emulator.launch(GEMM, None, ARGUMENTS, block=192)
    object.__setattr__(result, "kernel", "<b>&")
    assert "<b>&" in texts(result._repr_html_())
