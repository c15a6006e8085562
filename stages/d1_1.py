"""D1.1: hd=64, one KV tile, P staged in tensor memory. The regression gate: every change must pass it."""

from stages.case import Case

CASES = (Case("D1.1", head_dim=64, keys=128), Case("D1.1", head_dim=64, keys=128, scale=0.3))
SEEDS = (1, 2, 3)
