"""Attention over the caches of serving engines: keys in pages, listed by indices or by a block table."""

from kernel.serving.caches import IndexedCache, TableCache
from kernel.serving.host import attention, sparse_attention

__all__ = ["IndexedCache", "TableCache", "attention", "sparse_attention"]
