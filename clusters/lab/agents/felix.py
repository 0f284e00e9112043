"""Felix, the agent of Calico, as the program calico-node runs it, with Kubernetes as its data
store. Its CustomResourceDefinitions are given with --manifest (manifests/crds.yaml of Calico).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cnibench.clusters.lab.fidelity.adapter import Adapter, Object, Site
from cnibench.clusters.lab.namespaces.places import LabNode, LabPod
from cnibench.clusters.lab.rules.calico_node import interface_name
from cnibench.clusters.lab.rules.services import CLUSTER_CIDRS
from cnibench.model.profile import Profile

_API = "crd.projectcalico.org/v1"


class Felix(Adapter):
    name = "calico-node"
    models = ("calico",)
    version = ("-v",)
    inside = "/usr/bin/calico-node"
    plugins = ("calico", "host-local")
    private = ("/run/calico",)
    definitions = ("clusterinformations.crd.projectcalico.org", "ippools.crd.projectcalico.org")

    @classmethod
    def unsupported(cls, profile: Profile) -> str:
        claim = profile.datapath
        assert claim is not None
        if not claim.options.get("felix", True):
            return "it has no chains of Felix, so nothing of it is the agent's"
        if claim.policy == "enforced":
            return "its policies are objects of Calico, which this adapter does not make"
        if claim.encapsulation != "vxlan":
            return "its routes between nodes are BIRD's, which this adapter does not run"
        return ""

    def objects(self) -> Sequence[Object]:
        pool = {"cidr": CLUSTER_CIDRS[4], "ipipMode": "Never", "vxlanMode": "Always"}
        return (
            _object("ClusterInformation", "default", {"datastoreReady": True}),
            _object("IPPool", "lab", {**pool, "natOutgoing": True, "blockSize": 24}),
        )

    def annotations(self, node: LabNode) -> Mapping[str, str]:
        return {
            "projectcalico.org/IPv4Address": f"{node.addresses[4]}/24",
            "projectcalico.org/IPv4VXLANTunnelAddr": node.gateways[4],
        }

    def arguments(self, site: Site) -> Sequence[str]:
        return ("-felix",)

    def environment(self, site: Site) -> Mapping[str, str]:
        return {
            "KUBECONFIG": str(site.kubeconfig),
            "FELIX_DATASTORETYPE": "kubernetes",
            "FELIX_FELIXHOSTNAME": site.node.name,
            "FELIX_IPV6SUPPORT": "false",
            "FELIX_IPTABLESBACKEND": self.model.options.iptables.capitalize(),
            "FELIX_NFTABLESMODE": "Disabled",
            "FELIX_LOGFILEPATH": "none",
            "FELIX_HEALTHENABLED": "false",
            "USE_POD_CIDR": "true",
        }

    def ready(self, site: Site) -> bool:
        said = site.node.run(["iptables-save", "-t", "filter"], timeout=20, check=False)
        return "cali-FORWARD" in said.stdout

    def network(self, site: Site, pod: LabPod) -> Mapping[str, Any]:
        return {
            "cniVersion": "0.3.1",
            "name": "k8s-pod-network",
            "type": "calico",
            "datastore_type": "kubernetes",
            "nodename": site.node.name,
            "mtu": self.model.deployment.mtu,
            "ipam": {
                "type": "host-local",
                "subnet": site.node.subnets[4],
                "dataDir": str(site.folder / "addresses"),
            },
            "policy": {"type": "k8s"},
            "kubernetes": {"kubeconfig": str(site.kubeconfig)},
        }

    def ports(self, pod: LabPod) -> str:
        return interface_name("cnibench", pod.name)


def _object(kind: str, name: str, spec: Mapping[str, Any]) -> Object:
    return {"apiVersion": _API, "kind": kind, "metadata": {"name": name}, "spec": dict(spec)}


PROVIDER = Felix
