"""Calls of device runtime functions (vprintf, __assertfail), and trap."""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..chip import LOCAL_BASE, WINDOW_BYTES
from ..errors import Fault
from ..ptx.syntax import Instr
from .lane_values import per_lane
from .registry import Action, Modifiers, executes, never_communicates

_SPEC = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?(hh|h|ll|l|z|j|t)?([diouxXeEfFgGaAcsp%])")
_LONG = frozenset({"ll", "l", "z", "j", "t"})


@executes("trap", "brkpt", communicates=never_communicates)
def trap(ins: Instr) -> Action:
    """End the launch with an error: for the kernel's own trap, or for an invalid call address or branch index.

    brkpt does the same, since no debugger is attached.
    """
    Modifiers(ins).done()
    own = next((name for name in ("trap", "brkpt") if name in ins.text), None)
    what = f"the kernel executed a {own}" if own else "the call address or branch index is not a known target"

    def run(warp: Any, mask: np.ndarray | None) -> None:
        raise Fault(what, ins, warp)

    return run


@executes("call", dst=1)
def call(ins: Instr) -> Action:
    """Call a device runtime function by name."""
    m = Modifiers(ins)
    m.flag("uni")
    name = m.last() if ins.modifiers else "?"
    m.done()
    known: dict[str, Callable[[Instr], Action]] = {"vprintf": _vprintf, "__assertfail": _assert_fail}
    if name not in known:
        raise m.unsupported(f"a call of {name}")
    return known[name](ins)


class _OpenLine:
    """The prefix of the line that is not yet ended, of one launch. Empty if the last text ended its line."""

    prefix = ""


def _vprintf(ins: Instr) -> Action:
    """Print each thread's text; return the number of arguments. Each line begins with its CTA and thread."""

    def run(warp: Any, mask: np.ndarray | None, arguments: Any) -> int:
        formats, buffers = (per_lane(a, np.uint64) for a in arguments)
        line: _OpenLine = warp.cta.launch.registry.setdefault(_OpenLine, _OpenLine())
        count = 0
        for lane in np.arange(32) if mask is None else np.flatnonzero(mask):
            text = ctypes.string_at(int(formats[lane])).decode(errors="replace")
            values = list(_values(text, warp, int(lane), int(buffers[lane])))
            prefix, said = f"{warp.cta} thread {_thread(warp, int(lane))}: ", _formatted(text, values)
            sys.stdout.write(said if line.prefix == prefix else prefix + said)
            line.prefix = "" if said.endswith("\n") else prefix if said else line.prefix
            count = len(values)
        return count

    return run


def _thread(warp: Any, lane: int) -> str:
    x, y, _ = warp.cta.launch.block
    linear = warp.index * 32 + lane
    return f"({linear % x},{linear // x % y},{linear // (x * y)})"


def _values(text: str, warp: Any, lane: int, buffer: int) -> Iterator[Any]:
    """Yield the arguments of a format, each at its natural alignment in the thread's buffer."""
    at = 0
    for length, kind in _SPEC.findall(text):
        if kind == "%":
            continue
        size = 8 if kind in "eEfFgGaAsp" or length in _LONG else 4
        at = -(-at // size) * size
        yield _number(_bytes(warp, lane, buffer + at, size), kind)
        at += size


def _bytes(warp: Any, lane: int, address: int, size: int) -> bytes:
    if 0 <= address - LOCAL_BASE < WINDOW_BYTES:
        start = address - LOCAL_BASE
        return bytes(warp.local[0][lane].view(np.uint8)[start : start + size])
    return ctypes.string_at(address, size)


def _number(raw: bytes, kind: str) -> Any:
    if kind in "eEfFgGaA":
        return float(np.frombuffer(raw, np.float64)[0])
    if kind == "s":
        return ctypes.string_at(int.from_bytes(raw, "little")).decode(errors="replace")
    return int.from_bytes(raw, "little", signed=kind in "di")


def _formatted(text: str, values: list[Any]) -> str:
    rest = iter(values)

    def replace(match: re.Match[str]) -> str:
        length, kind = match.groups()
        if kind == "%":
            return "%"
        value = next(rest)
        if kind == "p":
            return f"{value:#x}"
        if kind in "aA":
            return float.hex(value)
        spec = match.group()[:-1].removesuffix(length or "")
        return (spec + kind) % (chr(value & 0xFF) if kind == "c" else value)

    return _SPEC.sub(replace, text)


def _assert_fail(ins: Instr) -> Action:
    """Implement __assertfail(message, file, line, function, character size)."""

    def run(warp: Any, mask: np.ndarray | None, arguments: Any) -> None:
        lane = 0 if mask is None else int(np.flatnonzero(mask)[0])
        message, file, line, function, _ = (int(per_lane(a, np.uint64)[lane]) for a in arguments)
        texts = [ctypes.string_at(a).decode(errors="replace") if a else "?" for a in (message, file, function)]
        where = (("source", f"{texts[1]}:{line}, in {texts[2]}"), ("thread", _thread(warp, lane)))
        raise Fault(f"assertion failed: {texts[0]}", ins, warp, where)

    return run
