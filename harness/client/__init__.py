"""What runs on the user's machine: from the working tree to a candidate, its run on a target, and its acceptance."""
