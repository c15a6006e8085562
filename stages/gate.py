"""The cases of head dim 64 that the gate takes from later milestones, once these are accepted.

All would take ten times as long, for most have a configuration of their own. So the gate takes those that D1.1's
configuration serves, and of each mask one case. The fields of a case say that: a process that judges has no code of
the kernel's, which knows configurations.
"""

from stages.case import TILE, Case

#: Cases with another configuration, by milestone.
MASKED = {
    "D3": ("hd=64 n=200 B=3 T=3 H=16 lens=257,130,-3",),
    "D4": ("hd=64 n=400 B=3 T=4 H=16 lens=300,128,2 W=128",),
}


def in_gate(case: Case) -> bool:
    """Return True if the gate has a case of a later milestone."""
    return case.name in MASKED.get(case.milestone, ()) or like_gate(case)


def like_gate(case: Case) -> bool:
    """Return True if a case has the configuration of D1.1's: one row tile of a sequence, whole keys, no mask."""
    other = (case.p_path, case.lens, case.compressed, case.sinks, case.sms, case.served)
    plain = case.partials and not case.causal and not case.shared_kv and case.splits == 1 and not any(other)
    return case.head_dim == 64 and plain and case.tokens * case.heads <= TILE
