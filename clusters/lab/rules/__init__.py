"""The packet filter texts of each CNI and of kube-proxy, as pure functions from a node's
description to lines.
"""
