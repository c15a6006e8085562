"""Device code for sm_100. Each role has a module: load, mma, softmax, epilogue, combine. The others are shared."""
