"""D2: many queries. Tokens and heads packed into rows, a grid of row tiles and sequences, tails predicated."""

from itertools import product

from stages.case import Case

HEADS, TOKENS = (16, 64, 128), (1, 2, 3, 5)
BATCHES = (1, 3)  # in turn: each stands beside every H and every T
CASES = (
    *(
        Case("D2", head_dim=64, keys=65, heads=heads, tokens=tokens, batch=BATCHES[(h + t) % 2])
        for (h, heads), (t, tokens) in product(enumerate(HEADS), enumerate(TOKENS))
    ),
    Case("D2", head_dim=64, keys=129, heads=5, tokens=27, batch=2, scale=0.3),
    Case("D2", head_dim=512, keys=65, heads=16, tokens=5, batch=2, shared_kv=True, sms=2),
)
SEEDS = (1,)
