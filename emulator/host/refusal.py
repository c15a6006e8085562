"""How the host side says no: one sentence that names the call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from emulator.errors import EmulatorError


class NotEmulated(EmulatorError):
    """A call that the emulated device cannot answer.

    what: the call, as the script spells it. why: what is missing, or what to use in its place.
    """

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what} is not emulated: {why}")
        self.what, self.why = what, why


def refuse(what: str, why: str) -> Callable[..., NoReturn]:
    """A function that raises NotEmulated whenever it is called."""

    def refused(*_args: Any, **_kwargs: Any) -> NoReturn:
        raise NotEmulated(what, why)

    return refused
