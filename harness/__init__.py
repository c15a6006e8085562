"""How a change becomes accepted: run one milestone, record what it measured, report it, judge it.

`client` runs on the user's machine, `host` where the run is, `judge` in its checkout; all write and read `report`.
"""
