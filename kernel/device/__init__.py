"""Device code that the kernels of both chips share."""
