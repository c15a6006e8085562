"""The schedule of a decode step, as FlashMLA passes it from call to call. The kernel needs none."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kernel.serving import IndexedCache, TableCache


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
        enable_batch_invariant: bool = False

        @classmethod
        def of(
            cls,
            q: torch.Tensor,
            main: IndexedCache | TableCache,
            extra: IndexedCache | None,
            causal: bool,
            is_fp8_kvcache: bool,
            enable_batch_invariant: bool,
        ) -> FlashMLASchedMeta.Config:
            """Return the facts of a call with q [b, s_q, h_q, d]."""
            return cls(
                b=q.shape[0],
                s_q=q.shape[1],
                h_q=q.shape[2],
                page_block_size=main.pages.shape[1],
                h_k=1,
                causal=causal,
                is_fp8_kvcache=is_fp8_kvcache,
                topk=main.keys_per_token if isinstance(main, IndexedCache) else None,
                extra_page_block_size=None if extra is None else extra.pages.shape[1],
                extra_topk=None if extra is None else extra.keys_per_token,
                enable_batch_invariant=enable_batch_invariant,
            )

    have_initialized: bool = False
    config: Config | None = None
    tile_scheduler_metadata: torch.Tensor | None = None
    num_splits: torch.Tensor | None = None

    def check(self, config: Config) -> None:
        """Check that a call may use the schedule. Raises AssertionError in a later call with another config."""
        if self.have_initialized and self.config is not config and self.config != config:
            fields = [name for name in vars(config) if getattr(self.config, name) != getattr(config, name)]
            of = [", ".join(f"{name}={getattr(each, name)}" for name in fields) for each in (self.config, config)]
            raise AssertionError(f"tile_scheduler_metadata is for {of[0]}; allowed: one for {of[1]}, or a new one")

    def use(self, config: Config) -> None:
        """Store `config` after the first call."""
        if not self.have_initialized:
            self.have_initialized, self.config = True, config


def get_mla_metadata(*args: object, **kwargs: object) -> tuple[FlashMLASchedMeta, None]:
    """Return an empty schedule. Arguments are ignored, as by FlashMLA."""
    return FlashMLASchedMeta(), None
