"""D1.4: hd=512. The kernel accumulates logits over slices of the head dim; O exceeds its tensor memory."""

from stages.calls import callers
from stages.case import Case
from stages.catalog import COMPILE_S
from stages.check import Figure
from stages.verify import Recorder, check_figures

CASES = (
    Case("D1.4", head_dim=512, keys=128),
    Case("D1.4", head_dim=512, keys=256, heads=70, scale=0.3),
    *(Case("D1.4", head_dim=512, keys=keys, heads=64) for keys in (1000, 1024)),
    Case("D1.4", head_dim=512, keys=256, heads=64, shared_kv=True),
    Case("D1.4", head_dim=512, keys=256, heads=64, trend="growing"),
    # More KV tiles than pipeline stages, with maxima that change at most of them.
    *(
        Case("D1.4", head_dim=512, keys=keys, heads=heads, shared_kv=shared_kv, peak=peak)
        for keys, heads, shared_kv, peak in (
            (330, 64, False, 32),
            (330, 64, True, 32),
            (330, 64, True, 128),
            (321, 128, False, 32),
            (321, 128, False, 128),
        )
    ),
    Case("D1.4", head_dim=512, keys=321, trend="growing"),
    Case("D1.4", head_dim=512, keys=330, heads=64, shared_kv=True, trend="growing"),
    Case("D1.4", head_dim=512, keys=150, strided=True),
)
SEEDS = (1,)


def test_says_it_compiles_within_the_time_limit(case: Case, recorder: Recorder) -> None:
    """Tracing and compiling every configuration, down to the cubin, stays within the limit of catalog.COMPILE_S."""
    seconds = callers[-1].compile_s(case)
    check_figures(case, (Figure("compile", "seconds", seconds, "at most", COMPILE_S, seconds <= COMPILE_S),), recorder)
