"""One capability of a cluster or a deployment in each file."""
