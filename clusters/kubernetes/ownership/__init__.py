"""Whose a namespace or cluster is, what may be changed on it, and what earlier runs left."""
