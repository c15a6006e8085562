"""D1.2: many KV tiles at hd=64. Tile indexing of K and V, online softmax, rescaled O, any number of keys and rows."""

from stages.case import Case

KEYS = (256, 384, 512, 1024, 1, 129, 0, 127)
CASES = (
    *(Case("D1.2", head_dim=64, keys=keys) for keys in KEYS),
    Case("D1.2", head_dim=64, keys=1000, scale=0.3),
    Case("D1.2", head_dim=64, keys=129, heads=70),
    *(Case("D1.2", head_dim=64, keys=512, trend=trend) for trend in ("growing", "falling", "constant")),
    Case("D1.2", head_dim=64, keys=700, trend="growing", splits=2),
    Case("D1.2", head_dim=64, keys=300, scale=1.5, strided=True),
    # More KV tiles than pipeline stages, with maxima that change at most of them.
    *(Case("D1.2", head_dim=64, keys=580, peak=peak, splits=splits) for peak, splits in ((32, 1), (128, 1), (128, 2))),
)
SEEDS = (1,)
