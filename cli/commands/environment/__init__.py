"""Commands about the machine or cluster, and what can be measured on it."""
