"""``ila``: identifier-locator addressing: no encapsulation, half of each IPv6 destination address
is rewritten on the way.

A container's address is the SIR prefix, which all of them share, and a 64-bit identifier of its
own; between hosts the host's locator takes the place of the SIR prefix (draft-herbert-intarea-ila;
makowski2018, section on ILA). As that study built it, the kernel's lightweight tunnel does it
(net/ipv6/ila/ila_lwt.c): on each node a route ``encap ila LOCATOR ... hook-type output`` for each
container of the other node and one ``encap ila SIR ... hook-type input`` for each of its own, in
the mode adj-transport and with the containers' checksum offload off. There is no control plane: the
routes are written here. Sources keep their SIR address.

In adj-transport Linux 6.1 (since its commit "ila: Fix checksum neutral mapping") changes the
transport checksum by the difference with the wrong sign: on the wire it is false, and the receiving
node's translation, as wrong the other way round, makes it right again.

All containers share one space of identifiers: a second one with an address that is routed already
is refused.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence

from cnibench.clusters.lab.attestation import capture, probe
from cnibench.clusters.lab.datapaths.veth import Veth
from cnibench.clusters.lab.namespaces import features
from cnibench.clusters.lab.namespaces.places import LabNode, LabPod
from cnibench.errors import ClusterError
from cnibench.model.cell import Attestation

SIR = "fd00:10:244:ffff"
SIR_PREFIX = f"{SIR}::/64"
_LUID = 0x2000  # the identifier's upper 16 bits: type 1, a locally unique one, not checksum-neutral
_PROBE = 64 * 1024  # bytes


def sir_address(pod: LabPod) -> str:
    """The address that a container has and that others know."""
    return str(ipaddress.IPv6Address(f"{SIR}:{_LUID:x}:0:{pod.node.number}:{pod.number + 2:x}"))


def locator_address(pod: LabPod, node: LabNode) -> str:
    """What stands for a container on ``node`` between hosts: the locator is the node's own /64."""
    return str(
        ipaddress.IPv6Address(
            _prefix(node).packed[:8] + ipaddress.IPv6Address(sir_address(pod)).packed[8:]
        )
    )


def _prefix(node: LabNode) -> ipaddress.IPv6Address:
    return ipaddress.IPv6Network(node.subnets[6]).network_address


class Addressed(Veth):
    """Routed veth pairs with SIR addresses; subclasses translate between nodes."""

    between_machines = False

    def build(self) -> None:
        if self.deployment.families != (6,):
            raise ClusterError(f"{self.profile.name} is for IPv6 alone", "use --ip 6")
        super().build()  # each node's locator is routed to it

    def announce(self, there: LabNode, pod: LabPod) -> bool:
        """The node ``there`` sends to the container's locator from now on; False when it has its
        address from another container.
        """
        raise NotImplementedError

    def deliver(self, pod: LabPod) -> None:
        """The container's own node takes its locator back to the SIR prefix from now on."""
        raise NotImplementedError

    def withdraw(self, there: LabNode, pod: LabPod) -> None:
        """Neither does so any more."""
        raise NotImplementedError

    def connect(self, pod: LabPod) -> Iterator[str]:
        pod.addresses = {6: sir_address(pod)}
        if not self.announce(self._other(pod), pod):
            raise ClusterError(
                f"{pod.addresses[6]} is mapped to the node {pod.node.name} already: identifiers are"
                " of all tenants together",
                "give each container an address of its own, or use evpn-vxlan for tenants with"
                " overlapping addresses",
            )
        yield "mapping"
        yield from super().connect(pod)
        self.deliver(pod)
        yield "delivery"

    def disconnect(self, pod: LabPod) -> None:
        self.withdraw(self._other(pod), pod)

    def _other(self, pod: LabPod) -> LabNode:
        return next(node for node in self.deployment.nodes() if node is not pod.node)

    def on_wire(self, pod: LabPod, family: int, *, opener: bool, source: bool) -> str:
        # Sources keep their address; the destination carries its node's locator.
        return pod.addresses[6] if source else locator_address(pod, pod.node)

    def checks(self) -> Sequence[Attestation]:
        """Between nodes the destination carries the locator, in every packet."""
        client, server = self.deployment.pair("inter")
        with capture.watching(self.deployment.a) as seen:
            failure = probe.stream(client.ns, server.ns, server.addresses[6], 6, _PROBE)
        targets = sorted(
            {packet.target for packet in seen.packets if packet.source == client.addresses[6]}
        )
        expected = locator_address(server, server.node)
        observed = failure or ", ".join(targets) or "nothing"
        words = f"for {server.addresses[6]} the wire carries {expected} alone"
        return [
            self.deployment.attestation(
                "locator-on-wire", words, observed, not failure and targets == [expected], 6
            )
        ]


class Ila(Addressed):
    """Routes with the kernel's lightweight tunnel."""

    name = "ila"
    needs = ("ila",)
    super_packets = False

    def announce(self, there: LabNode, pod: LabPod) -> bool:
        out = _encap(str(_prefix(pod.node)), "output")
        words = [
            "add",
            f"{sir_address(pod)}/128",
            *out,
            "via",
            pod.node.addresses[6],
            "dev",
            there.wire,
        ]
        done = there.ns.run(["ip", "-6", "route", *words], check=False)
        if done.returncode and "File exists" not in done.stderr:
            raise ClusterError(
                f"node {there.name}: ip -6 route {' '.join(words)}: {done.stderr.strip()}"
            )
        return not done.returncode

    def deliver(self, pod: LabPod) -> None:
        located = f"{locator_address(pod, pod.node)}/128"
        # A gateway in the route saves the kernel a second look-up (ila_output).
        way = ["via", sir_address(pod), "dev", pod.host_end]
        pod.node.ns.run(["ip", "-6", "route", "add", located, *_encap(f"{SIR}::", "input"), *way])
        features.write(pod.ns, pod.interface, features.NO_CHECKSUM_OFFLOAD)

    def withdraw(self, there: LabNode, pod: LabPod) -> None:
        there.ns.run(["ip", "-6", "route", "del", f"{sir_address(pod)}/128"])
        pod.node.ns.run(["ip", "-6", "route", "del", f"{locator_address(pod, pod.node)}/128"])

    def checks(self) -> Sequence[Attestation]:
        """And the kernel's own account of the two routes that it goes by."""
        found = list(super().checks())
        _, server = self.deployment.pair("inter")
        for node, target, hook in (
            (self.deployment.a, sir_address(server), "output"),
            (self.deployment.b, locator_address(server, server.node), "input"),
        ):
            said = " ".join(
                node.ns.run(["ip", "-6", "route", "show", "exact", f"{target}/128"]).stdout.split()
            )
            passed = "encap ila" in said and f"hook-type {hook}" in said
            words = f"{node.name} has for {target} a route encap ila, hook-type {hook}"
            found.append(
                self.deployment.attestation(
                    f"ila-route-{hook}", words, said or "no such route", passed, 6
                )
            )
        return found


def _encap(prefix: str, hook: str) -> list[str]:
    """Of ``ip route``: the prefix that replaces the address' first 64 bits, as iproute2 writes a
    locator.
    """
    locator = ":".join(
        f"{int(group, 16):x}" for group in ipaddress.IPv6Address(prefix).exploded.split(":")[:4]
    )
    return [
        "encap",
        "ila",
        locator,
        "csum-mode",
        "adj-transport",
        "ident-type",
        "luid",
        "hook-type",
        hook,
    ]
