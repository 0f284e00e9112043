"""The program ``cnibench``: what a user types, and what the other packages are joined by."""
