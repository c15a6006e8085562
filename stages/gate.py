"""The cases of head dim 64 that the gate takes from later milestones, once these are accepted.

Each further configuration takes 1.3 to 2.5 CPU seconds to compile, and 0.2 to make machine code of its PTX. The 13 that
the gate lacks would take 22 in all. So it takes those cases that D1.1's configuration serves, and one each with P in
shared memory, split keys, lengths, and a window; one of them has two Q tiles. The fields of a case say that: a process
that judges has no code of the kernel's, which knows configurations.
"""

from stages.case import TILE, Case

#: Cases with another configuration, by milestone.
OTHERS = {
    "D1.2": ("hd=64 n=700 growing splits=2",),
    "D1.3": ("hd=64 n=128 P in smem",),
    "D3": ("hd=64 n=330 B=3 T=3 H=64 lens=400,321,-3 sms=2 peak=32",),
    "D4": ("hd=64 n=400 B=3 T=4 H=16 lens=300,128,2 W=128",),
}


def in_gate(case: Case) -> bool:
    """Return True if the gate has a case of a later milestone."""
    return case.name in OTHERS.get(case.milestone, ()) or like_gate(case)


def like_gate(case: Case) -> bool:
    """Return True if a case has the configuration of D1.1's: one row tile of a sequence, whole keys, no mask."""
    other = (case.p_path, case.lens, case.compressed, case.sinks, case.sms, case.served)
    plain = case.partials and not case.causal and not case.shared_kv and case.splits == 1 and not any(other)
    return case.head_dim == 64 and plain and case.tokens * case.heads <= TILE
