"""Carrying out a plan: the runner, one sample, and what workloads and collectors are."""
