"""D3: keys past a sequence's length are masked. NaN or Inf in them must not reach the result."""

from stages.case import Case

KEYS = 200
LENS = (KEYS, 129, 128, 127, 1, 0)
#: The device clamps lengths that are out of range.
OUT_OF_RANGE = (KEYS + 57, 130, -3)
CASES = (
    Case("D3", head_dim=64, keys=KEYS, heads=16, tokens=3, batch=6, lens=LENS),
    Case("D3", head_dim=128, keys=KEYS, heads=64, batch=6, lens=LENS, p_path="smem", sms=2),
    Case("D3", head_dim=256, keys=KEYS, heads=16, batch=6, lens=LENS, scale=0.3, sms=2),
    Case("D3", head_dim=512, keys=KEYS, heads=16, tokens=2, batch=6, lens=LENS, shared_kv=True, sms=2),
    Case("D3", head_dim=64, keys=KEYS, heads=16, tokens=3, batch=3, lens=OUT_OF_RANGE),
    # Two Q tiles or a CTA pair.
    *(
        Case("D3", head_dim, 330, heads, tokens, 3, lens=(400, 321, -3), shared_kv=head_dim == 512, sms=2, peak=32)
        for head_dim, heads, tokens in ((64, 64, 3), (128, 64, 3), (256, 64, 3), (512, 128, 1))
    ),
    # Split keys.
    Case("D3", 128, 700, 16, 2, 2, lens=(700, 130), splits=8, peak=32),
)
SEEDS = (1,)
