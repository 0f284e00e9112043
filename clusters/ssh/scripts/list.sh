# What the machine's kernel has: the lab writes no files.
listing kernel
