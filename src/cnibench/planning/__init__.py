"""Plan files, their cells, how many blocks, in which order, how long."""
