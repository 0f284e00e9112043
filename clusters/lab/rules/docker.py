"""The rules that Docker writes for one bridge network: twelve, the number that bruijn2017 counted
as the default ones.

Follows libnetwork drivers/bridge/setup_ip_tables.go (setupIPTablesInternal, setIcc),
iptables/iptables.go (ProgramChain) and firewall_linux.go (arrangeUserFilterRule), with the single
DOCKER-ISOLATION chain of 2017. FORWARD keeps its policy ACCEPT, as Docker leaves it where
forwarding was on before it started; else the static routes between hosts could carry nothing.
"""

from __future__ import annotations

from cnibench.clusters.lab.rules.ruleset import Part, chain, end


def rules(family: int, bridge: str, pod_cidr: str) -> Part:
    """Docker's part on one host; none for IPv6, where it writes no rules by default
    (EnableIP6Tables was off).
    """
    if family == 6:
        return ()
    return (
        end("nat", "PREROUTING", "-m addrtype --dst-type LOCAL -j DOCKER"),
        end("nat", "OUTPUT", "! -d 127.0.0.0/8 -m addrtype --dst-type LOCAL -j DOCKER"),
        end("nat", "POSTROUTING", f"-s {pod_cidr} ! -o {bridge} -j MASQUERADE"),
        end("nat", "DOCKER", f"-i {bridge} -j RETURN"),
        chain("filter", "DOCKER"),
        end("filter", "FORWARD", "-j DOCKER-USER"),
        end("filter", "FORWARD", "-j DOCKER-ISOLATION"),
        end(
            "filter", "FORWARD", f"-o {bridge} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"
        ),
        end("filter", "FORWARD", f"-o {bridge} -j DOCKER"),
        end("filter", "FORWARD", f"-i {bridge} ! -o {bridge} -j ACCEPT"),
        end("filter", "FORWARD", f"-i {bridge} -o {bridge} -j ACCEPT"),
        end("filter", "DOCKER-USER", "-j RETURN"),
        end("filter", "DOCKER-ISOLATION", "-j RETURN"),
    )
