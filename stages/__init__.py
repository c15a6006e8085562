"""What must hold: one module a milestone, the catalog of milestones, the pins, and how error is measured."""
