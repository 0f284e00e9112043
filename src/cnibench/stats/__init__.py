"""Tests, intervals, power and sequential looks: pure functions on arrays."""
