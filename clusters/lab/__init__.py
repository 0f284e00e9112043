"""The embedded lab."""
