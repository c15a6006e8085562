"""Where a run happens: one small file a kind of target, all behind one protocol (`remote.target`)."""
