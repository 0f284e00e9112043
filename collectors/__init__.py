"""Room: collectors."""
