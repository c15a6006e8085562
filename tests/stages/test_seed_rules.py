"""Rules learned from an earlier kernel. Each is broken in a copy of the kernel, and the test names what rejects it.

tests/stages/test_broken_kernel.py breaks two of them at the gate: the wait after P's store, and P's column offset.
"""

import re
import subprocess
import sys
from dataclasses import dataclass

import pytest

from tests.system import Checkout
from tests.tiers import tier

VERIFY = """
import sys
from remote.device import Emulated
device = Emulated()
from stages.catalog import find
from stages.verify import verify

class Recorder:
    def result(self, result): pass

(case,) = [each for each in find(sys.argv[1]).load().CASES if each.name == sys.argv[2]]
verify(case, 1, device, Recorder())
"""


@dataclass(frozen=True)
class Break:
    """A rule, an edit that breaks it, the case that fails, and the message that the failure must have."""

    rule: str
    path: str
    old: str
    new: str
    case: tuple[str, str]
    says: str


BREAKS = (
    Break(
        "P in shared memory is published to the tensor core before it is signalled",
        "kernel/sm100/softmax.py",
        "dst[None, self.thread.half * vectors + j])\n        cute.arch.fence_view_async_shared()\n",
        "dst[None, self.thread.half * vectors + j])\n",
        ("D1.3", "hd=64 n=128 P in smem"),
        r"store_p_smem: (.|\n)*missing +fence\.proxy\.async after PTX line \d+",
    ),
    Break(
        "P is read from its own columns, not from those of the logits",
        "kernel/sm100/operands.py",
        "cute.recast_ptr(tmem + config.tmem.p_start, dtype",
        "cute.recast_ptr(tmem, dtype",
        ("D1.3", "hd=64 n=128 P in tmem"),
        r"O\.cosine = .* FAILS",
    ),
    Break(
        "the K of the logits' tile is the head dim",
        "kernel/sm100/mma.py",
        "range(config.k_slice[1] // MMA_K)",
        "range(64 // MMA_K)",
        ("D1.3", "hd=128 n=128 P in tmem"),
        r"O\.cosine = .* FAILS",
    ),
    Break(
        "the logits are waited for before the softmax uses them",
        "kernel/sm100/softmax.py",
        "thread.tLtS), s)\n            cute.arch.fence_view_async_tmem_load()\n",
        "thread.tLtS), s)\n",
        ("D1.1", "hd=64 n=128"),
        r"MissingWait: .* uses (.|\n)*missing +tcgen05\.wait::ld between PTX lines",
    ),
    Break(
        "O is waited for before it is rescaled",
        "kernel/sm100/softmax.py",
        "partition_S(block), o)\n        cute.arch.fence_view_async_tmem_load()\n",
        "partition_S(block), o)\n",
        ("D1.2", "hd=64 n=512 growing"),
        r"MissingWait: .* uses (.|\n)*missing +tcgen05\.wait::ld between PTX lines",
    ),
    Break(
        "O is waited for before the epilogue stages it",
        "kernel/sm100/softmax.py",
        "partition_S(block), o)\n        cute.arch.fence_view_async_tmem_load()\n",
        "partition_S(block), o)\n",
        ("D1.1", "hd=64 n=128"),
        r"MissingWait: .* uses (.|\n)*missing +tcgen05\.wait::ld between PTX lines",
    ),
    Break(
        "a CTA ends after its stores have read its shared memory",
        "kernel/sm100/fmha.py",
        "        cute.arch.cp_async_bulk_wait_group(0, read=True)\n",
        "",
        ("D1.1", "hd=64 n=128"),
        r"MissingWait: a TMA store reads shared memory of CTA .* may have ended(.|\n)*cp\.async\.bulk\.wait_group in",
    ),
    Break(
        "the stores that are waited for were committed",
        "kernel/sm100/epilogue.py",
        "            cute.arch.cp_async_bulk_commit_group()\n",
        "",
        ("D1.1", "hd=64 n=128"),
        r"MissingWait: .*a TMA store(.|\n)*wait_group in .* after a commit_group that follows",
    ),
    Break(
        "a name is bound before the branch that may bind it",
        "kernel/sm100/epilogue.py",
        "        row_sum = self.running.row_sum(self.cta.kv_done + kv.count)\n",
        "        if kv.count > 0:\n            row_sum = self.running.row_sum(self.cta.kv_done + kv.count)\n",
        ("D1.3", "hd=64 n=128 P in tmem"),
        r"'row_sum' is not defined",
    ),
    Break(
        "arrivals are counted by role, not by the warps of the CTA",
        "kernel/sm100/config.py",
        "softmax = len(self.roles.softmax)",
        "softmax = self.threads // WARP",
        ("D1.3", "hd=64 n=128 P in tmem"),
        r"Deadlock(.|\n)*4 of 8 arrivals, .* PTX line \d+",
    ),
    Break(
        "P is not a little too small",
        "kernel/sm100/softmax.py",
        "store(s.load().to(BFloat16))\n        cute.copy",
        "store((s.load() * 0.999).to(BFloat16))\n        cute.copy",
        ("D1.1", "hd=64 n=128"),
        r"outside its pins\nO\.z_factor = .* FAILS\nU\.z_factor = .* FAILS\n",
    ),
    Break(
        "an index past the last key names none",
        "kernel/device/tiles.py",
        "(index >= 0) & (index < self.of(entry, [each.keys for each in self.caches]))",
        "(index >= 0)",
        ("D5c", "hd=128 n=170 B=4 T=2 H=16 V=K lens=150,3,0,0 W=128 top 60"),
        r"OutOfBounds: a bulk prefetch of 256 bytes at \w+ lies outside every allocation",
    ),
    Break(
        "entries past a list's length do not count",
        "kernel/device/tiles.py",
        "(left > 0) & (index >= 0)",
        "(index >= 0)",
        ("D5c", "hd=128 n=170 B=4 T=2 H=16 V=K lens=150,3,0,0 W=128 top 60"),
        r"O\.z = .* FAILS",
    ),
    Break(
        "the logits are scaled by what was asked for",
        "kernel/host.py",
        "    if scale is None:\n",
        "    if True:\n",
        ("D1.1", "hd=64 n=128 scale=0.3"),
        r"lse\.error = .* FAILS",
    ),
)


# A number that is a little off. test_broken_kernel.py deletes a wait in every run of the tests.
LONG = {"P is not a little too small"}
PARAMS = [pytest.param(each, id=each.rule, marks=tier(False, each.rule in LONG)) for each in BREAKS]


@pytest.mark.parametrize("broken", PARAMS)
def test_a_broken_rule_is_refused(broken: Break, checkout: Checkout) -> None:
    checkout.replace(broken.path, broken.old, broken.new)
    done = subprocess.run(
        [sys.executable, "-c", VERIFY, *broken.case], cwd=checkout.path, capture_output=True, text=True, timeout=600
    )
    assert done.returncode != 0, f"{broken.rule}: broken, and the case holds"
    assert re.search(broken.says, done.stderr), done.stderr[-3000:]
