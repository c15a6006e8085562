"""`python -m lab.bugs [WORDS...]`: public synchronisation bugs as small programs, and the emulator's finding in each.

Each `.ptx` file of this folder is a correct program. A line that ends in `// @fix NAME` belongs to the correct program
only, a line that ends in `// @bug NAME` to the program with the bug NAME only. `bugs.toml` lists the bugs.
`python -m lab.bugs.gpu` runs them on a GPU.
"""
