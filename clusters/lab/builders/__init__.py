"""What the datapaths of the lab have in common: one kind of builder a module."""
