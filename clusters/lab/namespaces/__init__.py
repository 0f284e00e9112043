"""Network namespaces and what is in them: the tree, devices, routes, settings."""
