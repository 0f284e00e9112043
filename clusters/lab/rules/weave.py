"""The rules that Weave writes on a node and in each Pod, without its policy controller
(EXPECT_NPC=0).

Follows weaveworks/weave v2.8.1: net/bridge.go (ResetIPTables and ConfigureIPTables: the chains, the
set of the node's own prefixes, the order of the rules), net/expose.go (exposeNAT and the rule of
WEAVE-EXPOSE, for the bridge's address), prog/weaver/main.go with net/iptables.go (the canary
chains), net/veth.go (setupIface and setupIfaceAddrs: a Pod's own rules for multicast), net/ipsec
(the marks of an encrypted fast datapath). prog/weave-kube/launch.sh gives the options: a control
port on 127.0.0.1, no bridge of Docker, --no-masq-local.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cnibench.clusters.lab.rules.ruleset import IpSet, Line, Part, Table, chain, end, head

_CONTROL_PORT = 6784
_MULTICAST = "224.0.0.0/4"
_ESTABLISHED = "--ctstate RELATED,ESTABLISHED"
_LOCAL_SET = "weaver-no-masq-local"
_CANARY: tuple[Table, ...] = ("mangle", "nat", "filter")
_MARK = "0x20000/0x20000"


def rules(family: int, bridge: str, cluster_cidr: str) -> Part:
    """Weave's part on one node; none for IPv6, which it does not have."""
    if family == 6:
        return ()
    control = (
        f"-d 127.0.0.1/32 -p tcp -m tcp --dport {_CONTROL_PORT} -m addrtype ! --src-type LOCAL"
        f" -m conntrack ! {_ESTABLISHED}"
        ' -m comment --comment "Block non-local access to Weave Net control port" -j DROP'
    )
    forward = (
        f"-i {bridge} -o {bridge} -j ACCEPT",
        f"-o {bridge} -j WEAVE-EXPOSE",
        f"-i {bridge} ! -o {bridge} -j ACCEPT",
        f"-o {bridge} -m conntrack {_ESTABLISHED} -j ACCEPT",
    )
    nat = (
        f"-m set --match-set {_LOCAL_SET} dst"
        ' -m comment --comment "Prevent SNAT to locally running containers" -j RETURN',
        f"-s {cluster_cidr} -d {_MULTICAST} -j RETURN",
        f"! -s {cluster_cidr} -d {cluster_cidr} -j MASQUERADE",
        f"-s {cluster_cidr} ! -d {cluster_cidr} -j MASQUERADE",
    )
    return (
        end("filter", "INPUT", control),
        chain("filter", "WEAVE-EXPOSE"),
        end("filter", "WEAVE-EXPOSE", f"-d {cluster_cidr} -j ACCEPT"),
        *(head("filter", "FORWARD", rule) for rule in reversed(forward)),
        *(end("nat", "WEAVE", rule) for rule in nat),
        end("nat", "POSTROUTING", "-j WEAVE"),
        *(chain(table, "WEAVE-CANARY") for table in _CANARY),
    )


def local_set(family: int, prefixes: Iterable[str]) -> IpSet:
    """The prefixes of this node's own Pods, which are not masqueraded."""
    return IpSet(_LOCAL_SET, "hash:net", family, tuple(prefixes), "comment")


def encryption(own: str, peer: str, port: int, spi: int) -> Part:
    """What an encrypted fast datapath adds: VXLAN packets to the peer get the mark that selects the
    outgoing policy, and those from it are accepted only if they came in ESP.

    ``spi`` is that of packets from the peer.
    """

    def between(source: str, target: str) -> str:
        return f"-s {source}/32 -d {target}/32"

    vxlan = f"-p udp -m udp --dport {port}"

    def lines() -> Iterator[Line]:
        for way, hook in (("IN", "INPUT"), ("OUT", "OUTPUT")):
            yield chain("mangle", f"WEAVE-IPSEC-{way}")
            yield end("mangle", f"WEAVE-IPSEC-{way}-MARK", f"-j MARK --set-xmark {_MARK}")
            yield end("mangle", hook, f"-j WEAVE-IPSEC-{way}")
        yield end("filter", "INPUT", "-j WEAVE-IPSEC-IN")
        unencrypted = f"! -p esp -m policy --dir out --pol none -m mark --mark {_MARK} -j DROP"
        yield end("filter", "OUTPUT", unencrypted)
        yield end(
            "mangle",
            "WEAVE-IPSEC-IN",
            f"{between(peer, own)} -p esp -m esp --espspi {spi} -j WEAVE-IPSEC-IN-MARK",
        )
        unmarked = f"{between(peer, own)} {vxlan} -m mark ! --mark {_MARK} -j DROP"
        yield end("filter", "WEAVE-IPSEC-IN", unmarked)
        yield end(
            "mangle", "WEAVE-IPSEC-OUT", f"{between(own, peer)} {vxlan} -j WEAVE-IPSEC-OUT-MARK"
        )

    return tuple(lines())


def pod(interface: str, subnet: str) -> Part:
    """The rules in a Pod's own namespace: multicast only from its own network."""
    return (
        end("filter", "INPUT", f"-s {subnet} -d {_MULTICAST} -i {interface} -j ACCEPT"),
        end("filter", "INPUT", f"-d {_MULTICAST} -i {interface} -j DROP"),
    )
