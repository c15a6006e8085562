"""The command line: one module for each command, and the formats in which commands write their results."""
