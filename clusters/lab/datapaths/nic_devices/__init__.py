"""Pods whose devices are on the node's network card itself."""

from __future__ import annotations

from cnibench.clusters.lab.datapaths.nic_devices.ipvlan import Ipvlan
from cnibench.clusters.lab.datapaths.nic_devices.macvlan import Macvlan

PROVIDER = (Macvlan, Ipvlan)
