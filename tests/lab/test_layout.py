"""The drawing of where logits and P are stored agrees with the layouts, and shows a wrong layout."""

import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import kernel
from lab.layout import Traced, loaded_by, logits_at, picture, text

pytestmark = pytest.mark.usefixtures("kept_kernels")


@pytest.fixture(scope="module", params=[64, 512], ids="hd{}".format)
def traced(request: pytest.FixtureRequest) -> Traced:
    return Traced.of(kernel.compile(kernel.FmhaConfig(head_dim=request.param, p_path="smem")))


def test_every_logit_has_an_address_and_a_thread_of_its_quarter(traced: Traced) -> None:
    """A warp can only access the quarter of the lanes that has its number."""
    at, threads = logits_at(traced), loaded_by(traced)
    assert len(np.unique(at)) == at.size
    assert np.array_equal(threads // 32, (at >> 16) // 32)
    assert np.array_equal(np.unique(threads), np.arange(128))


def test_the_text_says_that_p_is_read_where_it_was_stored(traced: Traced) -> None:
    said = "\n".join(text(traced))
    elements = traced.compiled.config.block_m * traced.compiled.config.block_n
    assert f"reads {elements} of {elements} elements where they were stored" in said
    assert "row 1: 1 0 3 2 5 4 7 6" in said


def test_a_wrong_layout_shows(traced: Traced) -> None:
    """The descriptor's step for 16 keys is 4 chunks of 16 bytes instead of 2."""
    shape, strides = traced.lines["tOrP"].split(":")
    wrong = replace(traced, lines=traced.lines | {"tOrP": f"{shape}:{strides.replace('2', '4', 1)}"})
    assert wrong.lines != traced.lines
    assert f"reads {traced.compiled.config.block_m * traced.compiled.config.block_n} of" not in "\n".join(text(wrong))


@pytest.mark.parametrize("p_path", ["smem", "tmem"])
def test_a_picture_comes_of_it(p_path: kernel.problem.PPath) -> None:
    stream = io.BytesIO()
    picture(Traced.of(kernel.compile(kernel.FmhaConfig(head_dim=64, p_path=p_path)))).savefig(stream, format="png")
    with Image.open(stream) as image:
        assert image.width > 1000 and len(image.convert("RGB").getcolors(1 << 24) or []) > 100
