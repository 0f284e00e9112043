"""The lab between two machines: its models, the real NICs, no Kubernetes.

Each machine runs its side of the lab (clusters/lab/remote), which is sent to it over ssh and leaves
nothing behind; what is here tells both sides what to do, and measures.
"""
