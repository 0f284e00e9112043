"""The programs of the cluster and of the CNIs, at the versions that go/*/go.mod pins."""

from __future__ import annotations

from pathlib import Path

from .gobuild import part

KUBERNETES, HELM = "v1.34.4", "v3.19.5"
FLANNEL, CILIUM = "v0.28.4", "v1.15.19"

_K8S = "k8s.io/kubernetes/cmd"
_CNI = "github.com/containernetworking/plugins/plugins"
_FLANNEL = "github.com/flannel-io/flannel"
_CILIUM = "github.com/cilium/cilium"


def kubernetes() -> Path:
    """Folder with Kubernetes, etcd, CoreDNS, kind, helm, and the reference CNI plugins in cni/."""
    programs = {
        **{name: f"{_K8S}/{name}" for name in ("kubectl", "kubeadm", "kubelet", "kube-proxy")},
        **{
            name: f"{_K8S}/{name}"
            for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
        },
        "etcd": "go.etcd.io/etcd/server/v3",
        "coredns": "./coredns",
        "kind": "sigs.k8s.io/kind",
        "helm": "helm.sh/helm/v3/cmd/helm",
        **{f"cni/{name}": f"{_CNI}/main/{name}" for name in ("bridge", "ptp", "loopback")},
        "cni/host-local": f"{_CNI}/ipam/host-local",
        "cni/portmap": f"{_CNI}/meta/portmap",
    }
    major, minor, _ = KUBERNETES.removeprefix("v").split(".")
    stamps = {  # without them kubeadm and helm take themselves for v0.0.0
        "k8s.io/component-base/version.gitVersion": KUBERNETES,
        "k8s.io/component-base/version.gitMajor": major,
        "k8s.io/component-base/version.gitMinor": minor,
        "k8s.io/component-base/version.gitTreeState": "clean",
        "helm.sh/helm/v3/internal/version.version": HELM,
    }
    return part("kubernetes", "kubernetes", programs, stamps)


def flannel() -> Path:
    """Folder with flanneld, and the project's own chart/ and manifest."""
    sources = (
        _FLANNEL,
        {"chart": "chart/kube-flannel", "kube-flannel.yml": "Documentation/kube-flannel.yml"},
    )
    stamps = {f"{_FLANNEL}/pkg/version.Version": FLANNEL}
    # The udp backend is C. The standard library is taken without it, so that this shares all else
    # with what was built for Kubernetes.
    return part(
        "flannel",
        "kubernetes",
        {"flanneld": _FLANNEL},
        stamps,
        cgo=True,
        tags="netgo,osusergo",
        sources=sources,
    )


def flannel_cni() -> Path:
    """Folder with `flannel`, the plugin that delegates to bridge: the last release that the
    reference plugins shipped it in.
    """
    return part("flannel-cni", "flannel-cni", {"flannel": f"{_CNI}/meta/flannel"}, {})


def actionlint() -> Path:
    """Folder with `actionlint`, which checks GitHub's workflows; no part of a cluster."""
    package = "github.com/rhysd/actionlint/cmd/actionlint"
    return part("actionlint", "actionlint", {"actionlint": package}, {})


def cilium() -> Path:
    """Folder with the programs of Cilium, in bpf/ the C that the agent compiles, in scripts/ what
    its image has, and its chart/.
    """
    programs = {
        "cilium-agent": "daemon",
        "cilium-operator": "operator",
        "cilium-dbg": "cilium-dbg",
        "cilium-cni": "plugins/cilium-cni",
        "cilium-mount": "tools/mount",
        "cilium-sysctlfix": "tools/sysctlfix",
    }
    sources = {
        "bpf": "bpf",
        "chart": "install/kubernetes/cilium",
        "scripts/init-container.sh": "images/cilium/init-container.sh",
        "scripts/install-plugin.sh": "plugins/cilium-cni/install-plugin.sh",
        "scripts/cni-uninstall.sh": "plugins/cilium-cni/cni-uninstall.sh",
    }
    return part(
        "cilium",
        "cilium",
        {name: f"{_CILIUM}/{package}" for name, package in programs.items()},
        {f"{_CILIUM}/pkg/version.ciliumVersion": CILIUM.removeprefix("v")},
        tags="ipam_provider_operator,osusergo",
        sources=(_CILIUM, sources),
    )
