"""What the command lines of `python -m harness.MODULE` share."""

import argparse

from stages.catalog import Milestone, NotBuilt, UnknownMilestone, runnable


def milestone(text: str) -> Milestone:
    """The milestone that an argument names; the type of that argument, so that argparse refuses any other with 2."""
    try:
        return runnable(text)
    except (UnknownMilestone, NotBuilt) as error:
        raise argparse.ArgumentTypeError(str(error)) from error
