"""A run as one file that can be published: made, signed, and verified down to every figure."""
