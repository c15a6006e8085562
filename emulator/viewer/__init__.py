"""The viewer: one self-contained HTML page for each launch."""
