"""How the host side says no: one sentence that names the call."""

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
    """What CUDA answers by an error code. torch raises it with the same words."""

    def __init__(self, code: int, more: str = "") -> None:
        super().__init__(f"CUDA error: {TEXTS[code]}{more}")
        self.code = code


def not_emulated(what: str, why: str) -> NotEmulated:
    """The refusal of `what`, a call as the script spells it. why: what is missing, or what to use in its place."""
    return NotEmulated(f"{what} is not emulated: {why}")


def refuse(what: str, why: str) -> Callable[..., NoReturn]:
    """A function that raises NotEmulated whenever it is called."""

    def refused(*_args: Any, **_kwargs: Any) -> NoReturn:
        raise not_emulated(what, why)

    return refused
