"""What two machines differ in, and what they cannot have between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cnibench.clusters.ssh.inspection.packages import packages
from cnibench.clusters.ssh.inspection.report import Seen
from cnibench.clusters.ssh.sources import Source
from cnibench.testbed.cluster import Problem

_CLOCKS = 60  # s that they may be apart: certificates are valid from now on


def differences(one: Seen, other: Seen) -> list[str]:
    """What the two machines differ in and both should have alike, in words."""
    alike = {
        "os": "distribution",
        "kernel": "kernel",
        "cpu_model": "CPU",
        "cpus": "number of CPUs",
        "driver": "driver of the NIC",
        "speed": "speed of the NIC in Mbit/s",
        "mtu": "MTU of the NIC",
    }
    return [
        f"{what} differs: a: {one[name] or 'not reported'}, b: {other[name] or 'not reported'}"
        for name, what in alike.items()
        if one[name] != other[name]
    ]


def firewalls(one: Seen, other: Seen) -> list[str]:
    """Active firewalls, in words. Their rules are not read."""
    return [
        f"{name}: a firewall is active ({', '.join(on)}), its rules were not read: it must allow"
        f" all traffic from {peer['address']} and forward that of Pods"
        for name, seen, peer in (("a", one, other), ("b", other, one))
        if (on := seen.words("firewall"))
    ]


def installed_differently(one: Seen, other: Seen, source: Source) -> list[str]:
    """The packages that would be installed on either machine, in words, if they are not the same:
    another distribution may have other versions.
    """
    wanted = [" ".join(packages(seen, source)) or "nothing" for seen in (one, other)]
    if wanted[0] == wanted[1]:
        return []
    return [f"what is installed from packages differs: a: {wanted[0]}, b: {wanted[1]}"]


def pair_problems(names: Sequence[str], one: Seen, other: Seen) -> Iterator[Problem]:
    """What two machines cannot have between them."""
    both = " and ".join(names)
    if one["boot"] and one["boot"] == other["boot"]:
        yield Problem("", f"{both} are the same machine", "name two")
    elif one["address"] and one["address"] == other["address"]:
        yield Problem(
            "",
            f"{both} have the same address {one['address']}, by which neither reaches the other",
            "name addresses of a network between them: ssh://HOST?address=IP",
        )
    if one["architecture"] != other["architecture"]:
        yield Problem(
            "",
            f"{both} have different architectures: {one['architecture']}, {other['architecture']}",
            "measure between machines of one kind",
        )
    if abs(one.number("time") - other.number("time")) > _CLOCKS:
        yield Problem(
            "",
            f"the clocks of {both} are {abs(one.number('time') - other.number('time'))} s apart",
            "synchronise them, for example by chrony",
        )
    if (":" in one["address"]) != (":" in other["address"]):
        yield Problem(
            "",
            f"{both} are reached by IPv4 and IPv6: {one['address']}, {other['address']}",
            "name addresses of one family: ssh://HOST?address=IP",
        )
