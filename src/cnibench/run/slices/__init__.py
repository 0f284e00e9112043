"""Rounds of slices: every cell's load generator exists for a whole block and is driven for some
milliseconds in each round (docs/slices.md).
"""
