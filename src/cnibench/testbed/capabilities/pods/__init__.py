"""What a kind of cluster can do with its Pods, beyond the pair that is measured."""
