"""A package: its fixtures of this scope end before the tests of other files begin."""
