"""What the kernels of the nodes have, compared between two looks."""
