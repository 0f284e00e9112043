"""One namespace of a cluster of others: Pods in it and nothing else, for users who may do no
more.
"""

from cnibench.clusters.namespace.cluster import NamespaceCluster

PROVIDER = NamespaceCluster
