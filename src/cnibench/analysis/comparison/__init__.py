"""Labels compared: contexts and their pairs, ranks, levels, and what is decided."""
