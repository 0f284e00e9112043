"""Results of other tools as runs: one file for each format, whose PROVIDER reads it."""
