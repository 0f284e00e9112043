"""The Pods of the workloads: their life cycle, paths, policies and conditions."""
