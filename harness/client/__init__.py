"""The client, on the user's machine: it makes a candidate of the working tree, runs it on a target, and accepts it."""
