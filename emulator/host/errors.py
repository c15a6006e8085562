"""Errors of the host side: CUDA's error codes, and NotEmulated for unsupported calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

from ..bridge.driver import (
    COOPERATIVE_LAUNCH_TOO_LARGE,
    ILLEGAL_ADDRESS,
    LAUNCH_FAILURE,
    MISALIGNED_ADDRESS,
    NotEmulated,
)

INVALID_VALUE, INVALID_SYMBOL, INVALID_FUNCTION, NO_DEVICE, INVALID_DEVICE, NO_BINARY = 1, 13, 98, 100, 101, 209
INVALID_HANDLE, NOT_FOUND, NOT_READY, NOT_REGISTERED = 400, 500, 600, 713
UNSUPPORTED, INVALIDATED, MERGE, UNMATCHED, UNJOINED, CAPTURED_EVENT = 900, 901, 902, 903, 904, 907
ERRORS: Final = {
    0: ("CUDA_SUCCESS", "no error"),
    INVALID_VALUE: ("CUDA_ERROR_INVALID_VALUE", "invalid argument"),
    INVALID_SYMBOL: ("cudaErrorInvalidSymbol", "invalid device symbol"),
    INVALID_FUNCTION: ("cudaErrorInvalidDeviceFunction", "invalid device function"),
    NO_DEVICE: ("CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"),
    INVALID_DEVICE: ("CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"),
    NO_BINARY: ("CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"),
    INVALID_HANDLE: ("CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"),
    NOT_FOUND: ("CUDA_ERROR_NOT_FOUND", "named symbol not found"),
    NOT_READY: ("CUDA_ERROR_NOT_READY", "device not ready"),
    NOT_REGISTERED: (
        "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
        "pointer does not correspond to a registered memory region",
    ),
    ILLEGAL_ADDRESS: ("CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"),
    MISALIGNED_ADDRESS: ("CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"),
    LAUNCH_FAILURE: ("CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"),
    COOPERATIVE_LAUNCH_TOO_LARGE: ("CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks in cooperative launch"),
    801: ("CUDA_ERROR_NOT_SUPPORTED", "operation not supported"),
    UNSUPPORTED: ("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"),
    INVALIDATED: ("CUDA_ERROR_STREAM_CAPTURE_INVALIDATED", "operation failed due to a previous error during capture"),
    MERGE: ("CUDA_ERROR_STREAM_CAPTURE_MERGE", "operation would result in a merge of separate capture sequences"),
    UNMATCHED: ("CUDA_ERROR_STREAM_CAPTURE_UNMATCHED", "capture was not ended in the same stream as it began"),
    UNJOINED: ("CUDA_ERROR_STREAM_CAPTURE_UNJOINED", "capturing stream has unjoined work"),
    CAPTURED_EVENT: (
        "CUDA_ERROR_CAPTURED_EVENT",
        "operation not permitted on an event last recorded in a capturing stream",
    ),
}
"""Name and text by error code. The driver's and the runtime's codes agree."""


class CudaError(RuntimeError):
    """A CUDA error. CUDA's functions return its code; torch raises it with the same message."""

    def __init__(self, code: int, more: str = "") -> None:
        super().__init__(f"CUDA error: {ERRORS[code][1] if code in ERRORS else code}{more}")
        self.code = code


def not_emulated(what: str, why: str) -> NotEmulated:
    """Return the error for an unsupported call. what: the call as the script writes it. why: the reason or a fix."""
    return NotEmulated(f"{what} is not emulated: {why}")


def unsupported(what: str, why: str) -> Callable[..., NoReturn]:
    """Return a function that raises NotEmulated when it is called."""

    def reject(*_args: Any, **_kwargs: Any) -> NoReturn:
        raise not_emulated(what, why)

    return reject
