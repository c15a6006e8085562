"""Records of runs, and their presentation: reports, pages, pictures, terminal tables, notes."""
