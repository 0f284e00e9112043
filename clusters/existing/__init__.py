"""A cluster that somebody else made: measured as it is, or with profiles installed one after the
other where that is allowed.
"""

from cnibench.clusters.existing.cluster import ExistingCluster

PROVIDER = ExistingCluster
