"""Command-line arguments that several `python -m harness.MODULE` share."""

import argparse

from stages.catalog import Milestone, NotBuilt, UnknownMilestone, runnable

#: The help text of --beside.
BESIDE = (
    "milestones whose cases are launched as well, once for the fresh seed (of the gate: those of cases.toml), and "
    "names of such cases, with their milestone"
)


def milestone(text: str) -> Milestone:
    """Return the milestone of that name. As the type of an argument, it makes argparse exit with 2 if there is none."""
    try:
        return runnable(text)
    except (UnknownMilestone, NotBuilt) as error:
        raise argparse.ArgumentTypeError(str(error)) from error
