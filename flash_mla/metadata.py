"""The schedule of a decode step, as FlashMLA passes it from call to call. The kernel needs none."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass
class FlashMLASchedMeta:
    """A schedule. The first call fills `config`, and later calls must have the same.

    The kernel divides the keys of each token by itself, from the lengths that it reads, so a schedule may be used again
    with other lengths. tile_scheduler_metadata, num_splits: tensors that an engine may set; they are not read.
    """

    @dataclass(frozen=True)
    class Config:
        """The facts of a call that its schedule was made for, and with which it may be used again."""

        b: int
        s_q: int
        h_q: int
        page_block_size: int
        h_k: int
        causal: bool
        is_fp8_kvcache: bool
        topk: int | None
        extra_page_block_size: int | None
        extra_topk: int | None

    have_initialized: bool = False
    config: Config | None = None
    tile_scheduler_metadata: torch.Tensor | None = None
    num_splits: torch.Tensor | None = None

    def use(self, config: Config) -> None:
        """Store `config` in the first call. Raises AssertionError in a later call with another one."""
        if not self.have_initialized:
            self.have_initialized, self.config = True, config
        assert self.config == config, f"the schedule was made for {self.config}, this call is {config}"


def get_mla_metadata(*args: object, **kwargs: object) -> tuple[FlashMLASchedMeta, None]:
    """Return an empty schedule. Arguments are ignored, as by FlashMLA."""
    return FlashMLASchedMeta(), None
