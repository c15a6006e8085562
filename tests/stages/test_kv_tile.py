"""Trends and wrong outputs are made for the KV tiles of the kernel."""

from kernel.sm100 import choice
from stages.catalog import CATALOG


def test_cases_have_the_kv_tiles_of_the_kernel_for_sm_100a() -> None:
    cases = [case for milestone in CATALOG if milestone.built for case in milestone.launched()]
    differing = [str(case) for case in cases if case.kv_tile != choice.configuration(case.problem).block_n]
    assert not differing
