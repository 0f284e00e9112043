"""What the writer of a run directory is made of: events, raw folders, what resuming needs."""
