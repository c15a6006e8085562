"""The phases of a run: each a program in the checkout, with the environment's interpreter."""
