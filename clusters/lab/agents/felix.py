"""Felix, the agent of Calico, as the program calico-node runs it, with Kubernetes as its data
store. Its CustomResourceDefinitions are given with --manifest (manifests/crds.yaml of Calico).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cnibench.clusters.lab.builders import calico_endpoint
from cnibench.clusters.lab.datapaths.calico import Calico
from cnibench.clusters.lab.fidelity.adapter import Adapter, Object, Site
from cnibench.clusters.lab.namespaces.places import LabNode, LabPod
from cnibench.clusters.lab.rules.calico_node import interface_name
from cnibench.clusters.lab.rules.services import CLUSTER_CIDRS
from cnibench.model.profile import Profile

_API = "crd.projectcalico.org/v1"
_ORDER = 1_000_000  # of the tier that Kubernetes' policies are in (libcalico-go DefaultTierOrder)


class Felix(Adapter):
    name = "calico-node"
    models = ("calico",)
    tried = "v3.32.1: vxlan, none"
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
        return ""

    @classmethod
    def apart(cls, profile: Profile) -> Sequence[str]:
        assert profile.datapath is not None
        bird = ["BIRD's routes: the model's"] if profile.datapath.encapsulation != "vxlan" else []
        return ["the node's route to 169.254.0.0/16 in place of a default route", *bird]

    def objects(self) -> Sequence[Object]:
        claim = self.model.deployment.claim
        modes = {
            f"{kind}Mode": "Always" if claim.encapsulation == kind else "Never"
            for kind in ("ipip", "vxlan")
        }
        pool = {"cidr": CLUSTER_CIDRS[4], **modes, "natOutgoing": True, "blockSize": 24}
        return (
            _object("ClusterInformation", "default", {"datastoreReady": True}),
            _object("Tier", "default", {"order": _ORDER, "defaultAction": "Deny"}),
            _object("IPPool", "lab", pool),
            *([_policy(self.model.options.ports)] if claim.policy == "enforced" else []),
        )

    def annotations(self, node: LabNode) -> Mapping[str, str]:
        kind = {"vxlan": "VXLAN", "ipip": "IPIP"}.get(self.model.deployment.claim.encapsulation)
        tunnel = {f"projectcalico.org/IPv4{kind}TunnelAddr": node.gateways[4]} if kind else {}
        return {"projectcalico.org/IPv4Address": f"{node.addresses[4]}/24", **tunnel}

    def complete(self, node: LabNode) -> None:
        calico_endpoint.gateway_route(node)
        a, b = self.model.deployment.nodes()
        assert isinstance(self.model, Calico)
        self.model.bird(node, b if node is a else a, 4)

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
            "FELIX_DEFAULTENDPOINTTOHOSTACTION": "ACCEPT",
            # for policies of host endpoints alone, and its object files lie beside calico-node
            "FELIX_XDPENABLED": "false",
            "FELIX_LOGFILEPATH": "none",
            "FELIX_LOGSEVERITYSYS": "none",
            "FELIX_HEALTHENABLED": "false",
            "USE_POD_CIDR": "true",
        }

    def ready(self, site: Site) -> bool:
        program = f"iptables-{self.model.options.iptables}-save"
        said = site.node.run([program, "-t", "filter"], timeout=20, check=False)
        return "cali-FORWARD" in said.stdout

    def network(self, site: Site, pod: LabPod) -> Mapping[str, Any]:
        return {
            "cniVersion": "0.3.1",
            "name": "k8s-pod-network",
            "type": "calico",
            "datastore_type": "kubernetes",
            "nodename": site.node.name,
            "nodename_file_optional": True,  # calico-node would have written it at its start
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


def _policy(ports: Sequence[str]) -> Object:
    """Kubernetes' own kind, as the model has it: the benchmark's Pods among each other, by these
    ports.
    """
    selector = {"podSelector": {"matchLabels": {"cnibench": "bench"}}}
    opened = [_port(port, protocol) for protocol in ("TCP", "UDP") for port in ports]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "bench", "namespace": "cnibench"},
        "spec": {
            **selector,
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": [selector], "ports": opened}],
            "egress": [{"to": [selector], "ports": opened}],
        },
    }


def _port(port: str, protocol: str) -> Object:
    first, _, last = port.partition(":")
    ends = {"endPort": int(last)} if last else {}
    return {"protocol": protocol, "port": int(first), **ends}


PROVIDER = Felix
