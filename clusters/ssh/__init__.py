"""Two machines that have nothing but Linux and ssh: made a cluster of Kubernetes for the run, and
put back as they were; or joined by the lab's models, without Kubernetes.
"""

from cnibench.clusters.ssh.between import SshLab
from cnibench.clusters.ssh.cluster import SshCluster

PROVIDER = (SshCluster, SshLab)
