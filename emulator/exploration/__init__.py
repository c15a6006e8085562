"""Every order of a launch's synchronisation events that can differ in effect, one after another: `completion="all"`."""
