"""The milestones: a catalog, one module of cases per milestone, pins, metrics and negative controls."""
