"""What one slice is read from: counters of connections, and clocks of processes."""
