"""The interface of a cluster: places, deployments, clusters."""
