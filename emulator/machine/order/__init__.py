"""Happens-before: clocks, accesses, when asynchronous work completes, and the shadow that checks each access."""
