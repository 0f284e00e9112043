"""Room: clusters."""
