"""Two nodes of real Kubernetes as containers of this machine, one cluster for each profile
(https://kind.sigs.k8s.io).
"""

from cnibench.clusters.kind.cluster import KindCluster

PROVIDER = KindCluster
