"""Errors of the host side: CUDA's error codes, and NotEmulated for unsupported calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

from ..bridge.driver import NotEmulated

TEXTS: Final = {
    1: "invalid argument",
    900: "operation not permitted when stream is capturing",
    901: "operation failed due to a previous error during capture",
    902: "operation would result in a merge of separate capture sequences",
    903: "capture was not ended in the same stream as it began",
    904: "capturing stream has unjoined work",
    907: "operation not permitted on an event last recorded in a capturing stream",
}


class CudaError(RuntimeError):
    """A CUDA error. CUDA's functions return its code; torch raises it with the same message."""

    def __init__(self, code: int, more: str = "") -> None:
        super().__init__(f"CUDA error: {TEXTS[code]}{more}")
        self.code = code


def not_emulated(what: str, why: str) -> NotEmulated:
    """Return the error for an unsupported call. what: the call as the script writes it. why: the reason or a fix."""
    return NotEmulated(f"{what} is not emulated: {why}")


def unsupported(what: str, why: str) -> Callable[..., NoReturn]:
    """Return a function that raises NotEmulated when it is called."""

    def reject(*_args: Any, **_kwargs: Any) -> NoReturn:
        raise not_emulated(what, why)

    return reject
