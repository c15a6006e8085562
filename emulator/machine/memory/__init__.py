"""The memories of the device during a launch: shared, tensor and global memory, each checked by a shadow."""
