"""What tracing asks of the objects that device code is written with."""

from __future__ import annotations

from typing import Any

import cutlass


class Fixed:
    """Base of what is traced once and never reassigned: branches and loops have nothing of it to carry."""

    def __extract_mlir_values__(self) -> list[Any]:
        return []

    def __new_from_mlir_values__(self, values: list[Any]) -> Fixed:
        return self


def larger(x: Any, y: Any) -> Any:
    """Maximum of two integers, traced or not."""
    return max(x, y) if isinstance(x, int) and isinstance(y, int) else cutlass.select_(x > y, x, y)


def smaller(x: Any, y: Any) -> Any:
    """Minimum of two integers, traced or not."""
    return min(x, y) if isinstance(x, int) and isinstance(y, int) else cutlass.select_(x < y, x, y)
