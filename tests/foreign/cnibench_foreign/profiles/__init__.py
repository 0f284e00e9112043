"""A folder of profiles."""
