"""flannel: each of its backends."""

from __future__ import annotations

from cnibench.clusters.lab.datapaths.flannel.backends import Flannel
from cnibench.clusters.lab.datapaths.flannel.tunnels import FlannelIpip, FlannelWireguard
from cnibench.clusters.lab.datapaths.flannel.udp import FlannelUdp

PROVIDER = (Flannel, FlannelIpip, FlannelWireguard, FlannelUdp)
