"""What the kinds of Kubernetes cluster share: access, nodes, Pods, the CNI's installation, proof
and removal.
"""
