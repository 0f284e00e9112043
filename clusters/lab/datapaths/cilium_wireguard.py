"""``cilium-wireguard``: Cilium in native routing with transparent encryption by WireGuard.

Follows cilium/cilium v1.15 pkg/wireguard/agent/agent.go (cilium_wg0, port 51871, the other node's
Pod subnets as allowed addresses) and Documentation/security/network/encryption-wireguard.rst. What
a Pod sends to another node is redirected to cilium_wg0, here by the node's routing table, which the
program asks, there by the device's number; what comes out of it goes through the node's stack to
cilium_host and its program.
"""

from __future__ import annotations

from typing import Any

from cnibench.clusters.lab.daemons import wireguard
from cnibench.clusters.lab.datapaths.ebpf import Ebpf
from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.namespaces import links
from cnibench.clusters.lab.namespaces.places import LabNode

_DEVICE, _PORT = "cilium_wg0", 51871
_ETHERNET = 14  # bytes


class CiliumWireguard(Ebpf):
    """Programs at tc and a WireGuard device; ``tunnel`` stays '', since no program puts a tunnel
    key on packets.
    """

    name = "cilium-wireguard"
    needs = ("tc-bpf", "iptables", "wireguard")
    programs = wireguard.PROGRAMS

    def __init__(self, deployment: LabDeployment, options: Any) -> None:
        super().__init__(deployment, options)
        self._keys: dict[str, wireguard.Keys] = {}

    def tunnel_on(self, node: LabNode, family: int) -> str:
        return _DEVICE

    def _routes(self, here: LabNode, there: LabNode) -> None:
        for node in (here, there):
            if node.name not in self._keys:
                self._keys[node.name] = wireguard.make_keys(node.ns)
        allowed = [there.subnets[family] for family in self.deployment.families]
        peer = wireguard.Peer(self._keys[there.name].public, there.addresses[4], allowed)
        # bpf_fib_lookup() compares the packet's length with its Ethernet header, which this device
        # does not count, with the device's MTU
        wireguard.make(
            here.ns,
            _DEVICE,
            _PORT,
            self._keys[here.name],
            peer,
            mtu=self.deployment.mtu + _ETHERNET,
        )
        for family in self.deployment.families:
            links.route(
                here.ns, here.subnets[family], dev="cilium_host", prefsrc=here.gateways[family]
            )
            links.route(here.ns, there.subnets[family], dev=_DEVICE)


PROVIDER = CiliumWireguard
