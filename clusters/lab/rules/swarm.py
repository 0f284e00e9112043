"""The filter that makowski2018 put into the namespace of a Swarm network: what is established, the
workloads' ports, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence


def text(ports: Sequence[str]) -> str:
    """What iptables-restore reads: FORWARD drops by policy; ``ports`` (of TCP and UDP, as multiport
    takes them) are open.

    The study opened TCP port 5201 alone, with iperf3 as its only workload. Raises ValueError
    without ports.
    """
    if not ports:
        raise ValueError("a filter without an open port")
    words = [
        port for item in ports for port in ([item] if ":" not in item else [item, ""])
    ]  # a range counts twice (multiport takes 15)
    if len(words) > 15:
        raise ValueError(f"at most 15 ports, a range counting as two: {', '.join(ports)}")
    lines = ["*filter", ":INPUT ACCEPT [0:0]", ":FORWARD DROP [0:0]", ":OUTPUT ACCEPT [0:0]"]
    lines.append("-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT")
    lines += [
        f"-A FORWARD -p {protocol} -m multiport --dports {','.join(ports)} -j ACCEPT"
        for protocol in ("tcp", "udp")
    ]
    return "\n".join([*lines, "COMMIT", ""])
