"""WireGuard devices between the two nodes, set up with wg(8) as the CNIs do it through netlink."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cnibench.clusters.lab.namespaces import links
from cnibench.clusters.lab.namespaces.netns import Namespace

PROGRAMS = {"wg": "wireguard-tools"}


class Keys(NamedTuple):
    """A pair of keys in base64."""

    private: str
    public: str


class Peer(NamedTuple):
    """The other end: its key, its address on the wire, and what may come from and go to it
    (prefixes).
    """

    public: str
    address: str
    allowed: Sequence[str]


def make_keys(ns: Namespace) -> Keys:
    """A fresh pair. Raises ClusterError."""
    private = ns.run(["wg", "genkey"]).stdout.strip()
    return Keys(private, ns.run(["wg", "pubkey"], input=private).stdout.strip())


def make(ns: Namespace, name: str, port: int, keys: Keys, peer: Peer, *, mtu: int) -> None:
    """A device that is up, with one peer, both ends at ``port``. Raises ClusterError."""
    links.add(ns, name, "wireguard", up=False)
    argv = [
        "wg",
        "set",
        name,
        "listen-port",
        str(port),
        "private-key",
        "/dev/stdin",
        "peer",
        peer.public,
    ]
    argv += ["endpoint", f"{peer.address}:{port}", "allowed-ips", ",".join(peer.allowed)]
    ns.run(argv, input=keys.private)
    links.set_link(ns, name, mtu=mtu, state="up")
