"""FlashAttention-4's own forward under the clock, beside what was measured on B200s: bench/data/b200/fa4_*.csv.

It takes PyPI's `flash-attn-4` and `triton`, which are not in requirements.lock. Causal flops are half of all.
`python -m bench.fa4` prints it beside our kernel: hidden size 2,048, all heads on one key and value head.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from itertools import product
from typing import Any, Final

import emulator
from emulator.clock.chips import chip

HIDDEN: Final = 2048
FITTED: Final = 2
"""Every so-manyth row, from the first on, may be fitted to; the others never are."""
TOKENS: Final = 32_768
"""In sequences of each of these lengths, with as many keys."""
LENGTHS: Final = (1024, 4096, 16_384)


def installed() -> bool:
    """Whether there is a FlashAttention-4 to run."""
    return find_spec("flash_attn") is not None


def forward(rows: list[Mapping[str, str]]) -> Iterator[float]:
    """Predicted TFLOP/s of each row. A clock that is locked is no faster than that: power may still lower it."""
    for row in rows:
        batch, length, width, causal, heads = (int(row[c]) for c in ("batch", "seqlen", "head_dim", "causal", "heads"))
        yield rate(theirs, batch, length, width, causal, heads, heads, float(row["max_ghz"]))


def theirs(q: Any, k: Any, v: Any, causal: bool) -> None:
    """FlashAttention-4's forward."""
    os.environ.setdefault("FLASH_ATTENTION_CUTE_DSL_CACHE_ENABLED", "0")
    import flash_attn.cute

    flash_attn.cute.flash_attn_func(q, k, v, causal=causal)


def ours(q: Any, k: Any, v: Any, causal: bool) -> None:
    """This project's kernel, for one key and value head."""
    from kernel import fmha

    fmha(q, k.squeeze(2), v.squeeze(2), causal=causal, partials=False)


def rate(
    attention: Callable[[Any, Any, Any, bool], None],
    batch: int,
    length: int,
    width: int,
    causal: int,
    heads: int,
    kv_heads: int,
    max_ghz: float = float("inf"),
) -> float:
    """Predicted TFLOP/s of one forward: sequences of `length` tokens, heads `width` wide."""
    from emulator.host.session import emulated_host

    with emulated_host(), emulator.emulate(clock="b200") as device:
        import torch

        shapes = [(batch, length, count, width) for count in (heads, kv_heads, kv_heads)]
        q, k, v = (torch.empty(shape, device="cuda", dtype=torch.bfloat16) for shape in shapes)
        attention(q, k, v, bool(causal))
    made = [launch.prediction for launch in device.launches if launch.prediction is not None]
    launch_s = chip("b200").launch_us * 1e-6
    seconds = sum(p.cycles / (1e9 * min(p.ghz, max_ghz)) + launch_s for p in made)
    return 4 * batch * heads * width * length**2 / (1 + causal) / seconds / 1e12


def main() -> int:
    """Print a line for each head dim, mask and length; answers the exit code."""
    if not installed():
        print("flash-attn-4 and triton are not installed: nothing to compare with", file=sys.stderr)
        return 1
    print("predicted TFLOP/s on a B200, multi-query, nothing was measured\n")
    print(f"{'head dim':>8} {'causal':>6} {'keys':>6} {'ours':>7} {'FA4':>7} {'ratio':>6}")
    for width, causal, length in product((64, 128, 256), (0, 1), LENGTHS):
        shape = TOKENS // length, length, width, causal, HIDDEN // width, 1
        mine, peer = (rate(each, *shape) for each in (ours, theirs))
        print(f"{width:>8} {causal:>6} {length:>6} {mine:>7,.0f} {peer:>7,.0f} {mine / peer:>6.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
