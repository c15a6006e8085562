"""Running a launch: the scheduler, its processes, and the checks when a CTA ends."""
