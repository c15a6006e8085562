"""A model of how long a launch takes on a real chip, driven by the program's own instructions."""
