"""One command a file, in a package for what its user does."""
