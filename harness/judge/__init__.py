"""The phases of a run. Each is a program that runs in the checkout, with the environment's interpreter."""
