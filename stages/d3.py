"""D3: keys past a sequence's length are masked, and whatever lies there (NaN, Inf) never reaches the result."""

from stages.case import Case

KEYS = 200
LENS = (KEYS, 129, 128, 127, 1, 0)
CASES = (
    Case("D3", head_dim=64, keys=KEYS, heads=16, tokens=3, batch=6, lens=LENS),
    Case("D3", head_dim=128, keys=KEYS, heads=64, batch=6, lens=LENS, p_path="smem", sms=2),
    Case("D3", head_dim=256, keys=KEYS, heads=16, batch=6, lens=LENS, scale=0.3, sms=2),
    Case("D3", head_dim=512, keys=KEYS, heads=16, tokens=2, batch=6, lens=LENS, shared_kv=True, sms=2),
)
SEEDS = (1,)
