"""What runs on the host of a run, and what both sides share: the standard library only, for a host may have no more."""
