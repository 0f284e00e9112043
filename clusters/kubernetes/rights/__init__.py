"""Rights on the API server: the table of all, the roles made of it, and which are missing."""
