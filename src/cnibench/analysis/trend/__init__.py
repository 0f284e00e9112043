"""Runs of one machine over time: series, change points, and what changed around them."""
