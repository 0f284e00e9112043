"""Samples of run directories, read in pieces and gathered to series."""
