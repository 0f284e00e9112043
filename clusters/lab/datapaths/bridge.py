"""``bridge``: Docker's own network on two hosts with static routes between their subnets, datapath
A of bruijn2017.

One Linux bridge per host, veth pairs, a subnet per host, no tunnel (report of that study, section
on the test bed); the rules are those of one Docker network (see rules/docker.py), masquerading
included: a container's packets leave with its host's address.
"""

from __future__ import annotations

from collections.abc import Sequence

from cnibench.clusters.lab.builders.bridged import Bridged
from cnibench.clusters.lab.namespaces import links
from cnibench.clusters.lab.namespaces.places import LabNode, LabPod
from cnibench.clusters.lab.rules import docker
from cnibench.clusters.lab.rules.ruleset import Part


class Bridge(Bridged):
    """A bridge per host and static routes."""

    between_machines = True
    name = "bridge"
    bridge = "docker0"

    def between(self, here: LabNode, there: LabNode) -> None:
        for family in self.deployment.families:
            links.route(here.ns, there.subnets[family], via=there.addresses[family], dev=here.wire)

    def on_wire(self, pod: LabPod, family: int, *, opener: bool, source: bool) -> str:
        # IPv4 connections leave their node masqueraded.
        return pod.node.addresses[4] if family == 4 and opener else pod.addresses[family]

    def parts(self, node: LabNode, family: int) -> Sequence[Part]:
        return (docker.rules(family, self.bridge, node.subnets[family]),)


PROVIDER = Bridge
