"""What the kernel has of a deployment, as text that is the same for two deployments of one
profile.
"""
