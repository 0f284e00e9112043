"""flanneld: Pods' subnets from the nodes' objects, as Documentation/kube-flannel.yml runs it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cnibench.clusters.lab.fidelity.adapter import Adapter, Site
from cnibench.clusters.lab.namespaces.places import LabNode, LabPod
from cnibench.clusters.lab.rules.services import CLUSTER_CIDRS

_BACKENDS = {
    "flannel-udp": "udp",
    "flannel-ipip": "ipip",
    "flannel-wireguard": "wireguard",
}  # those of the model 'flannel' are its option


class Flanneld(Adapter):
    name = "flanneld"
    models = ("flannel", *_BACKENDS)
    tried = "v0.28.4: vxlan, host-gw, udp"
    inside = "/opt/bin/flanneld"
    plugins = ("flannel", "bridge", "host-local")

    def _backend(self) -> dict[str, Any]:
        options = self.model.options
        kind = getattr(options, "backend", None) or _BACKENDS[self.model.name]
        found: dict[str, Any] = {"Type": kind}
        if getattr(options, "direct_routing", False):
            found["DirectRouting"] = True
        return found

    def annotations(self, node: LabNode) -> Mapping[str, str]:
        return {"node.alpha.kubernetes.io/ttl": "0"}  # it panics on a node that has none

    def files(self, site: Site) -> Mapping[Path, str]:
        families = self.model.deployment.families
        net: dict[str, Any] = {"EnableNFTables": False, "Backend": self._backend()}
        if 4 in families:
            net["Network"] = CLUSTER_CIDRS[4]
        else:
            net["EnableIPv4"] = False
        if 6 in families:
            net |= {"EnableIPv6": True, "IPv6Network": CLUSTER_CIDRS[6]}
        return {site.folder / "net-conf.json": json.dumps(net)}

    def arguments(self, site: Site) -> Sequence[str]:
        return (
            "--kube-subnet-mgr",
            "--ip-masq",
            f"--iface={site.node.wire}",
            f"--kubeconfig-file={site.kubeconfig}",
            f"--net-config-path={site.folder / 'net-conf.json'}",
            f"--subnet-file={_subnet(site)}",
        )

    def environment(self, site: Site) -> Mapping[str, str]:
        return {"NODE_NAME": site.node.name}

    def ready(self, site: Site) -> bool:
        return _subnet(site).exists()

    def network(self, site: Site, pod: LabPod) -> Mapping[str, Any]:
        # the plugin's entry in kube-flannel.yml
        return {
            "cniVersion": "0.3.1",
            "name": "cbr0",
            "type": "flannel",
            "subnetFile": str(_subnet(site)),
            "dataDir": str(site.folder / "cni"),
            "ipam": {"dataDir": str(site.folder / "addresses")},
            "delegate": {"hairpinMode": True, "isDefaultGateway": True},
        }


def _subnet(site: Site) -> Path:
    return site.folder / "subnet.env"


PROVIDER = Flanneld
