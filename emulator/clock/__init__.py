"""What a launch would take on a real chip: a model of its time, driven by the program's own instructions."""
