"""The board: the public comparison that is made of a folder of bundles."""
