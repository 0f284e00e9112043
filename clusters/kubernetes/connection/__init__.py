"""The connection into a Pod, over which all commands there are run."""
