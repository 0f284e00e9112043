"""The files that make a node of a machine: pure functions of what is known of both machines.

containerd is one of our own, with its own folders and socket: one that a machine has is left
alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cnibench.clusters.kubernetes.nodes import kubelets

FOLDER = "/var/lib/cnibench"
SOCKET = "/run/cnibench-containerd/containerd.sock"
POD_SUBNETS = {4: "10.244.0.0/16", 6: "fd00:10:244::/56"}
SERVICE_SUBNETS = {4: "10.96.0.0/16", 6: "fd00:10:96::/112"}
API_PORT = 6443
# The kernel settings that kubeadm asks of a node, at each start: a machine may be rebooted.
_MODULES = "overlay br_netfilter"
_SETTINGS = (
    "net.ipv4.ip_forward=1",
    "net.ipv6.conf.all.forwarding=1",
    "net.bridge.bridge-nf-call-iptables=1",
    "net.bridge.bridge-nf-call-ip6tables=1",
)

CONTAINERD = f"""\
version = 2
root = "{FOLDER}/containerd"
state = "/run/cnibench-containerd"

[grpc]
  address = "{SOCKET}"

[plugins."io.containerd.internal.v1.opt"]
  path = "{FOLDER}/opt"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "@PAUSE@"
  tolerate_missing_hugetlb_controller = true
  restrict_oom_score_adj = @RESTRICT@

[plugins."io.containerd.grpc.v1.cri".containerd]
  snapshotter = "overlayfs"
  discard_unpacked_layers = true

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  SystemdCgroup = true
"""

_PATH = f"PATH={FOLDER}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CONTAINERD_UNIT = f"""\
[Unit]
Description=containerd of a run of cnibench
After=network.target local-fs.target

[Service]
Environment={_PATH}
ExecStartPre=-modprobe -a {_MODULES}
ExecStartPre=-sysctl -q -e -w {" ".join(_SETTINGS)}
ExecStart=@PROGRAM@ --config {FOLDER}/containerd.toml
Type=notify
Delegate=yes
KillMode=process
Restart=always
RestartSec=1
LimitNOFILE=infinity
TasksMax=infinity

[Install]
WantedBy=multi-user.target
"""
KUBELET_UNIT = f"""\
[Unit]
Description=kubelet of a run of cnibench
Wants=cnibench-containerd.service
After=cnibench-containerd.service
ConditionPathExists=/var/lib/kubelet/config.yaml
StartLimitIntervalSec=0

[Service]
Environment={_PATH}
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
ExecStart=@PROGRAM@ --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf \\
  --kubeconfig=/etc/kubernetes/kubelet.conf --config=/var/lib/kubelet/config.yaml \\
  $KUBELET_KUBEADM_ARGS
Restart=always
RestartSec=1

[Install]
WantedBy=multi-user.target
"""


@dataclass(frozen=True)
class Node:
    """``name`` is what Kubernetes calls it."""

    name: str
    address: str


def names(first: str, second: str) -> tuple[str, str]:
    """What the nodes are called: the machines' own names, unless those are alike or unfit."""
    low = first.lower(), second.lower()
    fit = all(name.replace("-", "").replace(".", "").isalnum() for name in low)
    if fit and low[0] != low[1] and "localhost" not in low:
        return low
    return "cnibench-a", "cnibench-b"


def _registration(node: Node) -> dict[str, Any]:
    return {
        "name": node.name,
        "criSocket": f"unix://{SOCKET}",
        "imagePullPolicy": "IfNotPresent",
        "taints": [],  # both machines are measured, the control plane's too
        "kubeletExtraArgs": [
            {"name": "node-ip", "value": node.address},
            {"name": "runtime-cgroups", "value": "/system.slice/cnibench-containerd.service"},
        ],
    }


def init(node: Node, version: str, families: tuple[int, ...]) -> str:
    """kubeadm's configuration of the control plane."""
    return _documents(
        {
            "kind": "InitConfiguration",
            "localAPIEndpoint": {"advertiseAddress": node.address, "bindPort": API_PORT},
            "nodeRegistration": _registration(node),
        },
        {
            "kind": "ClusterConfiguration",
            "clusterName": "cnibench",
            "kubernetesVersion": version,
            "apiServer": {"certSANs": ["127.0.0.1", "localhost", node.address]},
            "networking": {
                "podSubnet": ",".join(POD_SUBNETS[family] for family in families),
                "serviceSubnet": ",".join(SERVICE_SUBNETS[family] for family in families),
            },
        },
        _kubelet(),
        {
            "kind": "KubeProxyConfiguration",
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "mode": "iptables",
            # 0: the machine's own settings stay
            "conntrack": {
                "maxPerCore": 0,
                "min": 0,
                "tcpEstablishedTimeout": "0s",
                "tcpCloseWaitTimeout": "0s",
            },
        },
    )


def join(node: Node, control_plane: Node, token: str, ca_hash: str) -> str:
    """kubeadm's configuration of the other node."""
    host = f"[{control_plane.address}]" if ":" in control_plane.address else control_plane.address
    return _documents(
        {
            "kind": "JoinConfiguration",
            "discovery": {
                "bootstrapToken": {
                    "apiServerEndpoint": f"{host}:{API_PORT}",
                    "token": token,
                    "caCertHashes": [ca_hash],
                }
            },
            "nodeRegistration": _registration(node),
        }
    )


def _kubelet() -> dict[str, Any]:
    # Nothing is evicted and no image deleted in the middle of a measurement: whether the disk has
    # room was asked before.
    return kubelets.configuration(
        imageGCHighThresholdPercent=100,
        evictionHard={
            "nodefs.available": "0%",
            "nodefs.inodesFree": "0%",
            "imagefs.available": "0%",
        },
    )


def _documents(*items: Mapping[str, Any]) -> str:
    """JSON is YAML."""
    return "\n---\n".join(
        json.dumps({"apiVersion": "kubeadm.k8s.io/v1beta4", **item}) for item in items
    )
