"""A package of somebody else: one provider of each kind, in one file each."""
