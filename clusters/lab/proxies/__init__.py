"""How Services are implemented on the nodes: one file for each mode of kube-proxy, or what takes
its place.
"""
