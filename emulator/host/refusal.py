"""How the host side says no: one sentence that names the call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ..bridge.driver import NotEmulated


def not_emulated(what: str, why: str) -> NotEmulated:
    """The refusal of `what`, a call as the script spells it. why: what is missing, or what to use in its place."""
    return NotEmulated(f"{what} is not emulated: {why}")


def refuse(what: str, why: str) -> Callable[..., NoReturn]:
    """A function that raises NotEmulated whenever it is called."""

    def refused(*_args: Any, **_kwargs: Any) -> NoReturn:
        raise not_emulated(what, why)

    return refused
