"""cilium-agent with the chart's defaults of the profile's mode. Cilium's CustomResourceDefinitions
are given with --manifest, and the program lies beside its folder bpf, whose C it compiles with
clang.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from cnibench.clusters.lab.fidelity.adapter import Adapter, Site, healthy
from cnibench.clusters.lab.namespaces.places import LabPod
from cnibench.clusters.lab.rules.services import CLUSTER_CIDRS
from cnibench.model.profile import Profile

_HEALTH = 9879  # --agent-health-port


class CiliumAgent(Adapter):
    name = "cilium-agent"
    models = ("ebpf",)
    tried = "v1.15.19: vxlan, native"
    inside = "/usr/bin/cilium-agent"
    plugins = ("cilium-cni",)
    private = ("/run/cilium",)
    definitions = ("ciliumidentities.cilium.io", "ciliumnodes.cilium.io")
    beside = ("bpf",)
    runs: ClassVar[Mapping[str, str]] = {"clang": "clang"}

    @classmethod
    def unsupported(cls, profile: Profile) -> str:
        claim = profile.datapath
        assert claim is not None
        if not claim.options.get("kube_proxy", True):
            return "this adapter runs the agent beside kube-proxy"
        return "" if claim.policy != "enforced" else "this adapter makes no policies"

    def arguments(self, site: Site) -> Sequence[str]:
        tunnel = self.model.deployment.claim.encapsulation
        routing = (
            ("--routing-mode=tunnel", f"--tunnel-protocol={tunnel}")
            if tunnel != "none"
            else (
                "--routing-mode=native",
                "--auto-direct-node-routes=true",
                f"--ipv4-native-routing-cidr={CLUSTER_CIDRS[4]}",
            )
        )
        return (
            f"--k8s-kubeconfig-path={site.kubeconfig}",
            f"--lib-dir={site.program.parent}",
            "--cgroup-root=/run/cilium/cgroupv2",
            "--ipam=kubernetes",
            "--enable-ipv4=true",
            "--enable-ipv6=false",
            "--kube-proxy-replacement=false",
            "--enable-ipv4-masquerade=true",
            "--enable-hubble=false",
            "--cni-exclusive=false",
            *routing,
        )

    def environment(self, site: Site) -> Mapping[str, str]:
        return {"K8S_NODE_NAME": site.node.name}

    def ready(self, site: Site) -> bool:
        return healthy(site, _HEALTH, "/healthz", {"brief": "true"})

    def network(self, site: Site, pod: LabPod) -> Mapping[str, Any]:
        return {"cniVersion": "0.3.1", "name": "cilium", "type": "cilium-cni"}


PROVIDER = CiliumAgent
