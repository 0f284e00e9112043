"""Commands that publish runs, check what others published, and bring it in."""
