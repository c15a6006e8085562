"""Our kernel and a peer under the same clock: the lines printed, and programs that are not installed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lab import fa4, peers


@pytest.mark.thorough
def test_a_kernel_beside_itself_takes_as_long() -> None:
    work = peers.plain(64, False, 1024)
    cycles, rate, peer_cycles, peer_rate, ratio = peers.figures(replace(work, peer=work.ours))
    assert (cycles, rate, ratio) == (peer_cycles, peer_rate, "1.00")
    assert work.flops / float(rate.replace(",", "")) / 1e12 >= float(cycles.replace(",", "")) / 1.965e9


def test_what_is_not_installed_is_left_out_by_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fa4, "installed", lambda: False)
    assert peers.main() == 0
    assert "FlashAttention-4 is left out" in capsys.readouterr().out


def test_the_rows_of_other_peers_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "FIGURES", tmp_path / "peers.csv")
    head = ",".join(peers.HEAD)
    peers.FIGURES.write_text(f"# Why.\n{head}\na,FlashMLA,1,2,3,4,5\nb,other,1,2,3,4,5\n")
    peers.write("other", [("c", "1,000", "2", "3", "4", "5")])
    assert peers.FIGURES.read_text() == f'# Why.\n{head}\nc,other,"1,000",2,3,4,5\na,FlashMLA,1,2,3,4,5\n'
