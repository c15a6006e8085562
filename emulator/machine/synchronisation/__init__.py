"""Objects that warps wait on: mbarriers, named and cluster barriers, waits for a pipe, the register pool."""
