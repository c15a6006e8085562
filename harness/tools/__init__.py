"""Tools of a kernel author: pins from many seeds, layouts, resources, predicted times, replays."""
