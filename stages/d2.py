"""D2: many queries. Tokens and heads packed into rows, a grid of row tiles and sequences, predicated tails."""

from itertools import product
from typing import Any

from stages.case import Case

HEADS, TOKENS = (16, 64, 128), (1, 2, 3, 5)
BATCHES = (1, 3)  # alternating, so that each occurs with every H and every T
LOGITS: tuple[dict[str, Any], ...] = ({"peak": 32}, {"peak": 128}, {"trend": "growing"})
CASES = (
    *(
        Case("D2", head_dim=64, keys=65, heads=heads, tokens=tokens, batch=BATCHES[(h + t) % 2])
        for (h, heads), (t, tokens) in product(enumerate(HEADS), enumerate(TOKENS))
    ),
    Case("D2", head_dim=64, keys=129, heads=5, tokens=27, batch=2, scale=0.3),
    Case("D2", head_dim=512, keys=65, heads=16, tokens=5, batch=2, shared_kv=True, sms=2),
    # Two Q tiles or a CTA pair; several row tiles per CTA; an odd number of KV tiles, more than pipeline stages.
    *(
        Case("D2", head_dim, keys, heads, tokens, batch=3, sms=2, **each)
        for head_dim, keys, heads, tokens, logits in (
            (64, 580, 64, 3, LOGITS),
            (128, 321, 64, 3, LOGITS[1:2]),
            (256, 321, 64, 3, LOGITS),
            (512, 321, 128, 1, LOGITS[1:2]),
        )
        for each in logits
    ),
    Case("D2", head_dim=256, keys=130, heads=64, tokens=3, batch=2, scale=1.0, strided=True),
)
SEEDS = (1,)
