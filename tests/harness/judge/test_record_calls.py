"""The text of a compile error: file, line and function."""

import re

import pytest

import kernel
from harness.judge.record_calls import described


def test_an_error_names_the_line_of_the_kernel_from_which_it_came() -> None:
    """Also if the compiler raises another error for it."""
    with pytest.raises(RuntimeError) as caught:
        try:
            kernel.fmha(None, None, None)  # type: ignore[arg-type]
        except Exception as error:
            raise RuntimeError("\x1b[31mno kernel") from error
    said = described(caught.value).splitlines()
    assert re.match(r"kernel/[\w/]+\.py:\d+ in \w+: \w+Error: ", said[0]) and said[-1] == "RuntimeError: no kernel"
