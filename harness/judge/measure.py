"""The phase that times a milestone's cases on a GPU, and other attention kernels that are installed there.

`python -m harness.judge.measure D1.4 --out FOLDER` rewrites FOLDER/measured.json after every measurement.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from harness.host.files import write_atomically
from harness.judge import arguments
from harness.judge.gpu_time import Times, measure

if TYPE_CHECKING:
    from stages.case import Case
    from stages.inputs import Inputs

NAME = "measured.json"
OURS = "this kernel"
DEVICE = "cuda"


class Measured(msgspec.Struct, frozen=True):
    """The times of a case with the kernel `what`, or the error that prevented the measurement."""

    case: str
    what: str
    times: Times | None
    error: str = ""


def main() -> int:
    """Run the command line that the module's docstring describes."""
    parser = argparse.ArgumentParser(prog="python -m harness.judge.measure", description=__doc__)
    parser.add_argument("milestone", type=arguments.milestone)
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    from stages.inputs import draw
    from stages.launch import prepared

    done: list[Measured] = []
    for case in args.milestone.load().CASES:
        inputs = draw(case, 1)
        for what, call in {OURS: prepared(case, inputs, DEVICE), **peers(case, inputs)}.items():
            for cold in (True, False):
                done.append(timed(case, what, call, cold))
                write_atomically(args.out / NAME, msgspec.json.encode(done))
                print(f"{case}  {what}  {done[-1].times or done[-1].error}", flush=True)
    return 0


def timed(case: Case, what: str, call: Callable[[], object], cold: bool) -> Measured:
    """Time a call. Return the error of another kernel's call instead of raising it."""
    try:
        return Measured(case.name, what, measure(call, cold))
    except Exception as error:
        if what == OURS:
            raise
        return Measured(case.name, what, None, f"{type(error).__name__}: {error}"[:200])


def peers(case: Case, inputs: Inputs) -> dict[str, Callable[[], Any]]:
    """Return calls of other kernels that compute O of this case; {} unless it is plain attention to all keys.

    Each returns O in its own layout.
    """
    if case.lens is not None or case.causal or case.compressed is not None or case.sinks is not None:
        return {}
    from torch.nn import functional

    attention: Any = functional.scaled_dot_product_attention
    q, k = inputs.q.to(DEVICE), inputs.k.to(DEVICE)[:, :, None]
    v = k if inputs.v is None else inputs.v.to(DEVICE)[:, :, None]
    by_head = [tensor.transpose(1, 2).contiguous() for tensor in (q, k, v)]
    found: dict[str, Callable[[], Any]] = {
        "torch's scaled_dot_product_attention": lambda: attention(*by_head, scale=case.scale, enable_gqa=True)
    }
    if find_spec("flash_attn") is not None and find_spec("flash_attn.cute") is not None:
        from flash_attn.cute import flash_attn_func

        found["FlashAttention-4"] = lambda: flash_attn_func(q, k, v, softmax_scale=case.scale)
    return found


if __name__ == "__main__":
    sys.exit(main())
