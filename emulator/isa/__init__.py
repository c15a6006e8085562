"""What each instruction does: one file a family, all found through `registry`."""
