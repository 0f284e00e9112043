"""The embedded lab: no Kubernetes, no Docker, no daemon."""

from cnibench.clusters.lab.cluster import LabCluster

PROVIDER = LabCluster
