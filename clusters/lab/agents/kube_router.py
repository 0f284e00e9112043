"""kube-router: routes, tunnels and firewall, as daemonset/kubeadm-kuberouter.yaml runs it, with the
overlay of the profile; Services are left to kube-proxy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cnibench.clusters.lab.fidelity.adapter import Adapter, Site
from cnibench.clusters.lab.namespaces.places import LabPod

# its ConfigMap; kube-router adds the node's subnet to ipam, and the MTU
_CONFIG: Mapping[str, Any] = {
    "cniVersion": "0.3.0",
    "name": "mynet",
    "plugins": [
        {
            "name": "kubernetes",
            "type": "bridge",
            "bridge": "kube-bridge",
            "isDefaultGateway": True,
            "ipam": {"type": "host-local"},
        }
    ],
}


class KubeRouter(Adapter):
    name = "kube-router"
    models = ("kube-router",)
    inside = "/usr/local/bin/kube-router"
    plugins = ("bridge", "host-local")
    # the name is a hash of the Pod's and of the time (pkg/controllers/netpol/pod.go)
    chains = r'--comment "(\S+) (?:in|out)" -j (KUBE-POD-FW-\w+)'
    tried = "v2.11.1"

    def files(self, site: Site) -> Mapping[Path, str]:
        return {_config(site): json.dumps(_CONFIG)}

    def arguments(self, site: Site) -> Sequence[str]:
        overlay = self.model.options.overlay
        kind = ("--overlay-type=full",) if overlay is True else ("--overlay-type=subnet",)
        return (
            f"--kubeconfig={site.kubeconfig}",
            f"--hostname-override={site.node.name}",
            "--run-router=true",
            "--run-firewall=true",
            "--run-service-proxy=false",
            "--bgp-graceful-restart=true",
            f"--enable-overlay={'true' if overlay else 'false'}",
            *(kind if overlay else ()),
        )

    def environment(self, site: Site) -> Mapping[str, str]:
        return {"NODE_NAME": site.node.name, "KUBE_ROUTER_CNI_CONF_FILE": str(_config(site))}

    def ready(self, site: Site) -> bool:
        ipam = _bridge(site)["ipam"]
        return bool(ipam.get("subnet") or ipam.get("ranges"))

    def network(self, site: Site, pod: LabPod) -> Mapping[str, Any]:
        bridge = _bridge(site)
        addresses = {**bridge["ipam"], "dataDir": str(site.folder / "addresses")}
        return {**bridge, "cniVersion": "0.3.1", "ipam": addresses}


def _config(site: Site) -> Path:
    return site.folder / "10-kuberouter.conflist"


def _bridge(site: Site) -> dict[str, Any]:
    """The plugin's part of the configuration, as kube-router left it so far."""
    try:
        found: dict[str, Any] = json.loads(_config(site).read_text())["plugins"][0]
    except ValueError:  # it is being written
        return dict(_CONFIG["plugins"][0])
    return found


PROVIDER = KubeRouter
