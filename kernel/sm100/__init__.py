"""Device code of sm_100, a room a role: load, mma, softmax and epilogue, and what they share."""
