"""Felix's table of nftables for ARP, as text for ``nft -f``: a node, which answers all that a Pod
asks for by proxy ARP, does not answer for the Pod's own address.

Follows projectcalico/calico v3.32.1 felix/nftables/table.go (NewARPTable), renderer.go and
felix/dataplane/linux/endpoint_mgr.go (CompleteDeferredWork). Felix writes it whatever else it
filters with.
"""

from __future__ import annotations

from collections.abc import Sequence

from cnibench.clusters.lab.rules.felix import RuleHash
from cnibench.clusters.lab.rules.ruleset import Pod

_TABLE = "arp calico-arp"
_OUTPUT, _DISPATCH = "filter-OUTPUT", "filter-cali-arp-dispatch"


def table(pods: Sequence[Pod]) -> str:
    """The whole table, in place of what was there; ``pods`` are those of the node with IPv4."""
    out = [f"table {_TABLE}", f"delete table {_TABLE}", f"add table {_TABLE}"]
    chains = {pod.interface: f"filter-cali-arp-{pod.interface}" for pod in pods}
    hook = "{ type filter hook output priority filter ; policy accept ; }"
    out.append(f"add chain {_TABLE} {_OUTPUT} {hook}")
    out += [f"add chain {_TABLE} {name}" for name in (_DISPATCH, *chains.values())]
    out.append(f"add map {_TABLE} {_DISPATCH} {{ type ifname : verdict ; }}")
    for interface, name in chains.items():
        out.append(f'add element {_TABLE} {_DISPATCH} {{ "{interface}" : goto {name} }}')
    out.append(_rule(_OUTPUT, f"counter jump {_DISPATCH}"))
    out.append(_rule(_DISPATCH, f"oifname vmap @{_DISPATCH}"))
    for pod in pods:
        replies = f"oifname {pod.interface} arp operation reply arp saddr ip {pod.addresses[4]}"
        out.append(_rule(chains[pod.interface], f"{replies} counter drop"))
    return "\n".join(out) + "\n"


def _rule(name: str, text: str) -> str:
    return f'add rule {_TABLE} {name} {text} comment "cali:{RuleHash(name).of(text)};"'
