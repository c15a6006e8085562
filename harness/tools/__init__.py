"""Tools of a kernel author: pins from many seeds, predicted times, replays."""
