"""How a change becomes accepted: run one milestone, record what it measured, report it, judge it."""
