"""Code that runs on a run's host, and code that client and host share.

It imports the standard library only, because a host may have nothing but Python and git. `bootstrap`, `probe` and
`provision` also import nothing of this project: they are sent as text to hosts that do not have it yet.
"""
