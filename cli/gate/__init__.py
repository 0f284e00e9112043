"""What ``compare`` does: the two sides, a history, the plan, the explanation."""
