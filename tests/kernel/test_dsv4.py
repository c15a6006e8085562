"""The layer's call: any small layer equals one softmax over its keys and sink; arguments that do not go together."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import emulator
import kernel
from kernel import dsv4, oracle, reference
from stages import bad_arguments

ROOT = Path(__file__).resolve().parents[2]


def normal(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).bfloat16()


SINKS = st.one_of(st.sampled_from([-math.inf, math.inf, 0.0, -80.0, 80.0]), st.floats(-10, 10, width=32))


@st.composite
def layers(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of dsv4.attention; every branch may be missing or empty."""
    batch, tokens, heads = draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(st.sampled_from([1, 3, 16, 128]))
    d, seed = draw(st.sampled_from([64, 512])), draw(st.integers(0, 1000))
    keys, blocks = draw(st.integers(0, 70)), draw(st.integers(0, 70))
    lens = torch.tensor(draw(st.lists(st.integers(0, keys), min_size=batch, max_size=batch)), dtype=torch.int32)
    layer: dict[str, Any] = {
        "q": normal(seed, batch, tokens, heads, d),
        "window": draw(st.sampled_from([1, 8, 128, None])),
    }
    kind = draw(st.sampled_from(["SWA", "HCA", "CSA"]))
    if kind == "SWA" or draw(st.booleans()):
        layer |= {"swa_kv": normal(seed + 1, batch, keys, d), "swa_lens": lens}
    if kind != "SWA":
        layer["cmp_kv"] = normal(seed + 2, batch, blocks, d)
    if kind == "HCA":
        past = torch.tensor(draw(st.lists(st.integers(0, 99), min_size=batch, max_size=batch)), dtype=torch.int32)
        layer |= {"compress_ratio": draw(st.sampled_from([1, 4, 128])), "seq_lens": lens + past}
    if kind == "CSA":
        generator = torch.Generator().manual_seed(seed)
        most = draw(st.integers(0, 70))
        shape = (batch, tokens, most)
        layer["topk_indices"] = torch.randint(-1, max(blocks, 1), shape, generator=generator, dtype=torch.int32)
        if blocks == 0:
            layer["topk_indices"].fill_(-1)
        if draw(st.booleans()):
            layer["topk_lens"] = torch.randint(0, most + 1, shape[:2], generator=generator, dtype=torch.int32)
    if draw(st.booleans()):
        layer["attn_sink"] = torch.tensor(draw(st.lists(SINKS, min_size=heads, max_size=heads)), dtype=torch.float32)
    return layer


def sources(layer: dict[str, Any]) -> list[tuple[torch.Tensor, oracle.Keys]]:
    """(keys, visible [B, T, S], how often each key counts) of each branch, from the oracle's rules."""
    batch, tokens = layer["q"].shape[:2]
    found: list[tuple[torch.Tensor, oracle.Keys]] = []
    if "swa_kv" in layer:
        found.append((layer["swa_kv"], oracle.swa_keys(layer["swa_lens"].tolist(), tokens, layer["window"])))
    if "seq_lens" in layer:
        at = layer["seq_lens"].numpy()[:, None] - tokens + np.arange(tokens)
        visible = oracle.compressed_keys(at, layer["compress_ratio"])
        last = layer["cmp_kv"].shape[1]
        found.append((layer["cmp_kv"], lambda b, t: [j for j in visible(b, t) if j < last]))
    if "topk_indices" in layer:
        indices = layer["topk_indices"].numpy()
        lens = layer["topk_lens"].numpy() if "topk_lens" in layer else np.full((batch, tokens), indices.shape[2])
        found.append((layer["cmp_kv"], oracle.topk_keys(indices, lens, layer["cmp_kv"].shape[1])))
    return found


def expected(layer: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """One softmax over the concatenation [keys of all branches | sink], in float64."""
    q, branches = layer["q"].double().numpy(), sources(layer)
    sink = layer.get("attn_sink")
    o, lse = np.zeros(q.shape), np.full(q.shape[:3], -math.inf)
    for b, t in np.ndindex(*q.shape[:2]):
        seen = np.concatenate([kv.double().numpy()[b, list(keys(b, t))] for kv, keys in branches])
        if not len(seen):
            continue
        s = q[b, t] @ seen.T * q.shape[-1] ** -0.5
        lse[b, t] = np.logaddexp.reduce(s, axis=1)
        total = lse[b, t] if sink is None else np.logaddexp(lse[b, t], sink.double().numpy())
        o[b, t] = np.exp(s - total[:, None]) @ seen
    return o, lse


def sees_more_blocks_than_there_are(layer: dict[str, Any]) -> bool:
    """Return whether debug=True would reject the layer's positions, which the device takes as far as there are rows."""
    if "seq_lens" not in layer:
        return False
    return int(layer["seq_lens"].max()) // layer["compress_ratio"] > layer["cmp_kv"].shape[1]


def equals_one_softmax(layer: dict[str, Any]) -> None:
    q = layer["q"]
    out = kernel.Attention(torch.full_like(q, math.nan), torch.full(q.shape[:3], math.nan))
    with emulator.emulate(completion="lazy"):
        dsv4.attention(**layer, out=out, debug=not sees_more_blocks_than_there_are(layer))
    o, lse = expected(layer)
    assert np.array_equal(out.lse.isfinite().numpy(), np.isfinite(lse))
    finite = np.isfinite(lse)
    np.testing.assert_allclose(out.lse.double().numpy()[finite], lse[finite], atol=2e-6, rtol=1e-6)
    np.testing.assert_allclose(out.o.double().numpy(), o, atol=0.02, rtol=0.02)
    assert (out.o.double().numpy()[~finite] == 0).all()


@settings(max_examples=2, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(layers())
def test_any_small_layer_equals_one_softmax(layer: dict[str, Any]) -> None:
    equals_one_softmax(layer)


@pytest.mark.thorough
@settings(max_examples=30, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(layers())
def test_more_small_layers_equal_one_softmax(layer: dict[str, Any]) -> None:
    equals_one_softmax(layer)


def test_the_two_oracles_agree() -> None:
    layer: dict[str, Any] = {
        "q": normal(0, 1, 2, 2, 8),
        "swa_kv": normal(1, 1, 9, 8),
        "window": 4,
        "cmp_kv": normal(2, 1, 3, 8),
    }
    lens = torch.tensor([9], dtype=torch.int32)
    layer |= {"swa_lens": lens, "seq_lens": lens + 4, "compress_ratio": 4, "attn_sink": torch.tensor([0.5, -1.0])}
    pairs = [(kv.double().numpy(), kv.double().numpy(), keys) for kv, keys in sources(layer)]
    o, lse = oracle.attention(layer["q"].double().numpy(), pairs, 8**-0.5, layer["attn_sink"].numpy())
    for got, want in zip(expected(layer), (o, lse), strict=True):
        np.testing.assert_allclose(got, want, atol=1e-12)
    window = reference.branch(layer["q"], layer["swa_kv"], visible=reference.causal_mask(2, 9, lens, 4))
    compressed = reference.compressed_mask(torch.tensor([[11, 12]]), 3, 4)
    merged = reference.merge(
        [window, reference.branch(layer["q"], layer["cmp_kv"], visible=compressed)], layer["attn_sink"]
    )
    np.testing.assert_allclose(merged.o.numpy(), o, atol=1e-12)


@pytest.mark.parametrize("bad", bad_arguments.LAYER, ids=str)
def test_bad_arguments_are_refused_before_anything_is_compiled(
    bad: bad_arguments.BadCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernel.plan.compile", never)
    assert not bad.accepted_by(kernel.dsv4.attention, bad_arguments.layer() | {"debug": True})


def never(*args: object) -> None:
    raise AssertionError("compiled")


def test_compressed_keys_have_no_values_of_their_own() -> None:
    a = bad_arguments.layer()
    with pytest.raises(kernel.ArgumentError, match="v is a tensor"):
        kernel.fmha(a["q"], a["swa_kv"], a["swa_kv"], compressed=kernel.TopkBlocks(a["cmp_kv"], a["topk_indices"]))


@pytest.mark.long
def test_the_example_holds() -> None:
    command = [sys.executable, "examples/dsv4_layer.py", "--head-dim", "64", "--heads", "4"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("holds") == 6
