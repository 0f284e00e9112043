"""Two machines that have nothing but Linux and ssh: made a cluster of Kubernetes for the run, and
put back as they were.
"""

from cnibench.clusters.ssh.cluster import SshCluster

PROVIDER = SshCluster
