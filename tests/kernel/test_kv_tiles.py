"""KV tiles that a row tile sees, compared with a count over every key of every row."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kernel.device.tiles import KvTiles, RowTile, VisibleKeys
from kernel.problem import Mask


@given(
    mask=st.sampled_from(["none", "length", "causal"]),
    keys=st.integers(0, 40),
    length=st.integers(0, 40),
    tokens=st.integers(1, 30),
    heads=st.integers(1, 6),
    window=st.sampled_from([1, 3, 8, 2**30]),
    block_m=st.sampled_from([4, 8]),
    block_n=st.sampled_from([4, 8]),
)
def test_tiles_are_those_with_a_visible_key(
    mask: Mask, keys: int, length: int, tokens: int, heads: int, window: int, block_m: int, block_n: int
) -> None:
    length = keys if mask == "none" else min(length, keys)
    seen = VisibleKeys(mask, keys, length, tokens, window)
    for index in range(-(-tokens * heads // block_m)):
        tile = RowTile(index, 0, tokens * heads, heads, tokens, block_m, ctas=1, group_is_token=False)
        tiles = KvTiles(seen, block_n, *tile.first_and_last_token())
        rows = [r for r in range(index * block_m, (index + 1) * block_m) if r < tokens * heads]
        visible = [{j for j in range(keys) if sees(mask, length, tokens, window, r // heads, j)} for r in rows]
        some = set().union(*visible)
        assert tiles.count == (-(-(max(some) + 1 - min(some)) // block_n) if some else 0)
        assert not some or tiles.start(0) == min(some)
        for i in range(tiles.count):
            whole = set(range(tiles.start(i), tiles.start(i) + block_n))
            assert bool(tiles.needs_mask(i)) == any(not whole <= row for row in visible)
            assert mask == "none" or (max(whole) >= seen.valid_end) == (max(whole) >= length)


@given(
    keys=st.integers(0, 40),
    position=st.integers(0, 90),
    tokens=st.integers(1, 12),
    heads=st.integers(1, 6),
    ratio=st.sampled_from([1, 2, 5]),
)
def test_tiles_of_compressed_blocks(keys: int, position: int, tokens: int, heads: int, ratio: int) -> None:
    block_m, block_n = 4, 8
    seen = VisibleKeys("causal", keys, position, tokens, ratio=ratio)
    for index in range(-(-tokens * heads // block_m)):
        tile = RowTile(index, 0, tokens * heads, heads, tokens, block_m, ctas=1, group_is_token=False)
        tiles = KvTiles(seen, block_n, *tile.first_and_last_token())
        rows = range(index * block_m, min((index + 1) * block_m, tokens * heads))
        ends = [[j for j in range(keys) if (j + 1) * ratio <= position - tokens + r // heads + 1] for r in rows]
        assert tiles.count == -(-max(map(len, ends)) // block_n)
        for i in range(tiles.count):
            whole = range(tiles.start(i), tiles.start(i) + block_n)
            assert bool(tiles.needs_mask(i)) == any(not set(whole) <= set(row) for row in ends)
            assert seen.valid_end >= max(map(len, ends))


def test_a_group_of_one_token_has_rows_of_it_alone() -> None:
    tile = RowTile(1, 7, 96, 96, 3, 64, ctas=1, group_is_token=True)
    assert (tile.sequence, tile.first_and_last_token(), tile.row(5), tile.head(5)) == (2, (1, 1), 69, 69)


def sees(mask: str, length: int, tokens: int, window: int, t: int, j: int) -> bool:
    """docs/explanation/attention.md, D3 and D4, for one query token and key."""
    if mask != "causal":
        return j < length
    p = length - tokens + t
    return max(0, p - window + 1) <= j <= p
