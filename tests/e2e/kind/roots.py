"""Debian root file systems: one for the nodes, one for all images (with the compiler that Cilium's
agent needs as a layer of its own).
"""

from __future__ import annotations

from pathlib import Path

from . import cache
from .command import run

SUITE = "bookworm"
_NODE = (
    "systemd systemd-sysv dbus conntrack iptables nftables ebtables ipset iproute2 ethtool"
    " util-linux mount kmod libseccomp2 e2fsprogs bash ca-certificates curl jq procps socat"
    " containerd runc iputils-ping"
)
_MACHINE = (
    "systemd systemd-sysv dbus openssh-server sudo iproute2 iptables nftables conntrack ethtool"
    " kmod procps util-linux mount ca-certificates socat"
    " python3 ipset netperf iperf3 nginx-light apache2-utils"  # for the lab between two machines
)
_BASE = (
    "iptables nftables ebtables conntrack ipset iproute2 ethtool bpftool kmod procps iputils-ping"
    " tcpdump ca-certificates netperf iperf3 nginx-light apache2-utils"
)
_NETPERF = "--components=main,non-free"
_COMPILER = "clang-14"
_LEFT_OUT = (
    "/usr/share/man/*",
    "/usr/share/doc/*",
    "/usr/share/locale/*",
    "/usr/share/info/*",
    "/usr/lib/gcc/*",
    "/usr/include/*",
    "*.a",
)


def node() -> Path:
    """root.tar in a folder: what becomes the node image."""
    return cache.part(
        "root-node",
        cache.key(SUITE, _NODE, _LEFT_OUT),
        lambda where: _strap(where / "root.tar", _NODE),
    )


def machine() -> Path:
    """root.tar in a folder: a machine that has nothing of Kubernetes."""
    return cache.part(
        "root-machine",
        cache.key(SUITE, _MACHINE, _LEFT_OUT),
        lambda where: _strap(where / "root.tar", _MACHINE, _NETPERF),
    )


def images() -> Path:
    """base.tar and, on top of it, compiler.tar."""

    def build(where: Path) -> None:
        # One tree, packed twice: what the compiler brought is what changed after the first packing.
        skipped = " ".join(
            f"--exclude=./{path}/*"
            for path in ("var/cache/apt", "var/lib/apt/lists", "proc", "sys", "dev")
        )
        hooks = (
            f'tar -C "$1" {skipped} -cf {where}/base.tar .',
            'sleep 1; touch "$1/packed"',
            f'chroot "$1" apt-get -qq install --yes --no-install-recommends {_COMPILER} >/dev/null',
            'ln -s clang-14 "$1/usr/bin/clang"',
            (
                'cd "$1" && find ./usr ./etc ./var/lib/dpkg -xdev ! -type d -cnewer packed '
                "! -path './etc/resolv.conf' -print0 | tar --null --no-recursion -T - -cf"
                f" {where}/compiler.tar"
            ),
        )
        _strap(None, _BASE, _NETPERF, *(f"--customize-hook={hook}" for hook in hooks))

    return cache.part("root-images", cache.key(SUITE, _BASE, _COMPILER, _LEFT_OUT), build)


def _strap(to: Path | None, packages: str, *options: str) -> None:
    prune = [f"--dpkgopt=path-exclude={pattern}" for pattern in _LEFT_OUT]
    target = [str(to)] if to else ["--format=null"]
    words = [
        "mmdebstrap",
        "--quiet",
        "--mode=root",
        "--variant=minbase",
        *prune,
        *options,
        f"--include={','.join(packages.split())}",
        SUITE,
        *target,
    ]
    run(*words, limit=1200)
