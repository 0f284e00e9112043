"""Plan files, how many blocks, in which order, how long."""
