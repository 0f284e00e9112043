"""The method of windows: each sample has a client and a window of its own."""
