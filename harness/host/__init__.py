"""What runs on the host of a run, and what both sides share.

The standard library only: a host may have nothing but Python and git. `bootstrap`, `probe` and `provision` stand alone
besides, for they are sent as text to where nothing of this project is.
"""
