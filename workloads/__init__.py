"""Room: workloads."""
