"""D4: causal mask and window, aligned to the sequence's end. KV tiles that no row sees hold NaN and are skipped."""

from itertools import product

from stages.case import Case

KEYS = 400
#: By tokens: heads, and the lengths of the sequences. Where a length is below `tokens`, the first rows see no key.
SHAPES = {1: (128, (KEYS, 1, 0)), 2: (64, (KEYS, 129, 1)), 4: (16, (300, 128, 2)), 130: (2, (KEYS, 100))}
WINDOWS = (1, 128, None)
CASES = (
    *(
        Case("D4", 64, KEYS, heads, tokens, len(lens), lens=lens, causal=True, window=window)
        for (tokens, (heads, lens)), window in product(SHAPES.items(), WINDOWS)
    ),
    # One head: a row tile's last token has a single row, and it alone sees the last KV tile.
    Case("D4", 64, KEYS, 1, 24, 6, lens=(129, 257, 385, 129, 257, 130), causal=True),
    Case("D4", 64, KEYS, 16, 4, causal=True, window=128, scale=0.3),
    Case("D4", 512, KEYS, 64, 2, 2, shared_kv=True, lens=(KEYS, 1), causal=True, window=128, sms=2),
    # Several row tiles per CTA, some without a visible key: two Q tiles (hd=128), a CTA pair (hd=256).
    *(Case("D4", hd, 300, 64, 5, 3, lens=(300, 1, 0), causal=True, window=128, sms=2) for hd in (128, 256)),
    # Splits without a KV tile, and sequences without a key.
    Case("D4", 256, 300, 16, 2, 4, shared_kv=True, lens=(300, 130, 1, 0), causal=True, window=128, splits=4),
    # Peaked, with an odd number of KV tiles before the next row tile; the row tiles do not divide evenly over the CTAs.
    *(
        Case("D4", hd, 400, heads, tokens, 3, lens=(390, 321, 130), causal=True, sms=sms, peak=peak)
        for hd, heads, tokens, sms, peak in (
            (64, 64, 4, 2, 32),
            (128, 64, 4, 2, 128),
            (256, 64, 4, 4, 32),
            (512, 64, 1, 2, 32),
        )
    ),
    # CTA pair: the last token of the second CTA sees one KV tile more than the last token of the first CTA.
    Case("D4", 256, 300, 16, 20, 2, lens=(140, 13), causal=True, window=200),
    Case("D4", 64, 300, 16, 2, 3, lens=(350, 140, -2), causal=True, window=128, strided=True),
    Case("D4", 256, 580, 16, 2, 2, shared_kv=True, lens=(580, 130), causal=True, splits=4, peak=32),
)
SEEDS = (1,)
