"""The nodes of a cluster: chosen, looked at, and run commands on through agents."""
