"""Proof by observation that a deployed datapath is what its profile claims."""
