"""For who works on the kernel: bounds from many seeds, layouts, resources, and how long things take."""
