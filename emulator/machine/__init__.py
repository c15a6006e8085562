"""The machine: memories that know who wrote them, asynchronous agents, warps, CTAs, clusters and their scheduler."""
