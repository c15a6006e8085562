"""D4: causal mask and window, aligned to the sequence's end. Tiles that no row sees are skipped: they hold NaN."""

from itertools import product

from stages.case import Case

KEYS = 400
#: By tokens: heads, and the sequences' lengths; those shorter than the tokens begin with rows that see nothing.
SHAPES = {1: (128, (KEYS, 1, 0)), 2: (64, (KEYS, 129, 1)), 4: (16, (300, 128, 2)), 130: (2, (KEYS, 100))}
WINDOWS = (1, 128, None)
CASES = (
    *(
        Case("D4", 64, KEYS, heads, tokens, len(lens), lens=lens, causal=True, window=window)
        for (tokens, (heads, lens)), window in product(SHAPES.items(), WINDOWS)
    ),
    Case("D4", 64, KEYS, 16, 4, causal=True, window=128, scale=0.3),
    Case("D4", 512, KEYS, 64, 2, 2, shared_kv=True, lens=(KEYS, 1), causal=True, window=128, sms=2),
    # Row tile after row tile, some without a key among them: two in flight, or those of one MMA.
    *(Case("D4", hd, 300, 64, 5, 3, lens=(300, 1, 0), causal=True, window=128, sms=2) for hd in (128, 256)),
    # Shares of a row tile's keys without a tile, and sequences without a key.
    Case("D4", 256, 300, 16, 2, 4, shared_kv=True, lens=(300, 130, 1, 0), causal=True, window=128, splits=4),
    # Peaked, with an odd number of KV tiles before another row tile; as many row tiles as do not share out evenly.
    *(
        Case("D4", hd, 400, heads, tokens, 3, lens=(390, 321, 130), causal=True, sms=sms, peak=peak)
        for hd, heads, tokens, sms, peak in (
            (64, 64, 4, 2, 32),
            (128, 64, 4, 2, 128),
            (256, 64, 4, 4, 32),
            (512, 64, 1, 2, 32),
        )
    ),
    # The last token of a pair's CTAs sees a KV tile more than that of the first CTA.
    Case("D4", 256, 300, 16, 20, 2, lens=(140, 13), causal=True, window=200),
    Case("D4", 64, 300, 16, 2, 3, lens=(350, 140, -2), causal=True, window=128, strided=True),
    Case("D4", 256, 580, 16, 2, 2, shared_kv=True, lens=(580, 130), causal=True, splits=4, peak=32),
)
SEEDS = (1,)
