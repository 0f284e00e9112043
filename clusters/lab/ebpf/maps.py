"""What Cilium's agent writes into the maps of one node (bpf/endpoints.h, policy.h, conntrack.h),
and what it reads from them.
"""

from __future__ import annotations

import ipaddress
import struct
import time
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from cnibench.clusters.lab.ebpf.programs import Loaded, read_object
from cnibench.clusters.lab.ebpf.syscall import Map, fd_value

HOST, WORLD, REMOTE_NODE = 1, 2, 6  # reserved identities, pkg/identity/numericidentity.go
FORWARDED = 0  # a reason of metrics.h
_FAMILY = {4: 1, 6: 2}
_CT = {4: "cilium_ct4_global", 6: "cilium_ct6_global"}
_ENDPOINT_IS_HOST = 1
_TCP = 6


class Rule(NamedTuple):
    """One entry of a policy. ``identity`` 0: any; ``proto`` 0: any; ``port`` 0: any. ``deny``
    refuses what would else match.
    """

    identity: int = 0
    egress: bool = False
    proto: int = 0
    port: int = 0
    deny: bool = False

    @property
    def wildcard_bits(self) -> int:
        """Bits of protocol and port that must match: 0, 8 or 24."""
        return 24 if self.port else 8 if self.proto else 0

    def key(self) -> bytes:
        packed = struct.pack(
            "=IIBB", 40 + self.wildcard_bits, self.identity, self.egress, self.proto
        )
        return packed + struct.pack("!H", self.port)


ALLOW_ALL = (Rule(), Rule(egress=True))  # what Cilium gives an endpoint that no policy selects


class Connection(NamedTuple):
    """An entry of the connection table. ``direction``: 'out' opened by the endpoint, 'in' towards
    it; packets as seen from the endpoint.
    """

    source: str
    target: str
    proto: int
    source_port: int
    target_port: int
    direction: Literal["out", "in"]
    related: bool
    received: int
    sent: int
    lifetime: int


def _packed(address: str) -> bytes:
    return ipaddress.ip_address(address).packed


def _mac(mac: str) -> bytes:
    return bytes.fromhex(mac.replace(":", ""))


class NodeMaps:
    """Maps and programs of one node, in the kernel until ``close``. Raises MissingError,
    ClusterError.
    """

    def __init__(
        self, tunnel_ifindex: int, *, host_routing: bool, entries: Mapping[str, int] | None = None
    ) -> None:
        self._loaded = Loaded(
            read_object("cilium"),
            {"config": struct.pack("=II", tunnel_ifindex, host_routing)},
            entries,
        )
        self._maps = self._loaded.maps
        self._policies: dict[int, Map] = {}

    def program(self, name: str, endpoint: int = 0) -> int:
        """The descriptor of a program; with ``endpoint`` that of the copy for one endpoint, which
        does not read the number from the place where it is attached.
        """
        return self._loaded.numbered(name, endpoint) if endpoint else self._loaded.programs[name]

    def host_address(self, address: str) -> None:
        """An address of this node itself: packets to it go to the stack."""
        self._maps["cilium_lxc"].update(
            self._endpoint_key(address), struct.pack("=IHH12xI", 0, 0, _ENDPOINT_IS_HOST, 0)
        )

    def endpoint(
        self,
        number: int,
        addresses: Mapping[int, str],
        identity: int,
        ifindex: int,
        mac: str,
        node_mac: str,
        policy: int,
    ) -> None:
        """A Pod of this node; ``mac`` is its device's, ``node_mac`` the node's end's; ``policy``
        the number of its policy.
        """
        four, six = addresses.get(4), addresses.get(6)
        own = struct.pack(
            "=I4s16sI",
            identity,
            _packed(four) if four else bytes(4),
            _packed(six) if six else bytes(16),
            policy,
        )
        self._maps["cilium_self"].update(struct.pack("=I", number), own)
        value = struct.pack("=IHH6s6sI", ifindex, number, 0, _mac(mac), _mac(node_mac), policy)
        for address in addresses.values():
            self._maps["cilium_lxc"].update(self._endpoint_key(address), value)
        self._maps["cilium_calls"].update(
            struct.pack("=I", number), fd_value(self.program("cil_lxc_policy"))
        )

    def forget_endpoint(self, number: int, addresses: Mapping[int, str]) -> None:
        """Undoes ``endpoint``."""
        for address in addresses.values():
            self._maps["cilium_lxc"].delete(self._endpoint_key(address))
        self._maps["cilium_calls"].delete(struct.pack("=I", number))
        own = self._maps["cilium_self"]
        own.update(struct.pack("=I", number), bytes(own.definition.value_size))  # of an array

    def policy(self, number: int, rules: Iterable[Rule]) -> None:
        """The whole policy ``number``, in place of what it was; the first packet after it meets the
        new one.
        """
        inner = self._maps["cilium_policy"].definition.inner
        assert inner is not None
        fresh = Map(inner)
        try:
            for rule in rules:
                fresh.update(
                    rule.key(), struct.pack("=BB6xQQ", rule.deny, rule.wildcard_bits, 0, 0)
                )
            self._maps["cilium_policy"].update(struct.pack("=I", number), fd_value(fresh.fd))
        except BaseException:
            fresh.close()
            raise
        if number in self._policies:
            self._policies[number].close()
        self._policies[number] = fresh

    def policy_size(self, number: int) -> int:
        """Entries that the kernel has in that policy."""
        return sum(1 for _ in self._policies[number].keys())  # noqa: SIM118 - not a dict

    def identity(self, prefix: str, identity: int, node: str = "") -> None:
        """Who has the addresses of ``prefix``, and over which ``node`` (an IPv4 address, '': no
        tunnel leads there).
        """
        value = struct.pack("=II", identity, int(ipaddress.IPv4Address(node)) if node else 0)
        self._maps["cilium_ipcache"].update(self._prefix_key(prefix), value)

    def forget_identity(self, prefix: str) -> None:
        """Undoes ``identity``."""
        self._maps["cilium_ipcache"].delete(self._prefix_key(prefix))

    def counted(self, reason: int, direction: Literal["ingress", "egress"]) -> int:
        """Packets (a super-packet is one) with that outcome on this node so far, over all CPUs."""
        key = struct.pack("=BB6x", reason, 1 if direction == "ingress" else 2)
        return sum(
            int(struct.unpack("=QQ", value)[0])
            for value in self._maps["cilium_metrics"].per_cpu(key)
        )

    def dropped(self) -> dict[int, int]:
        """Reason to packets of everything that was dropped on this node, both directions
        together.
        """
        found: dict[int, int] = {}
        for key in list(self._maps["cilium_metrics"].keys()):
            if key[0] != FORWARDED:
                packets = sum(
                    int(struct.unpack("=QQ", value)[0])
                    for value in self._maps["cilium_metrics"].per_cpu(key)
                )
                found[key[0]] = found.get(key[0], 0) + packets
        return found

    def connections(self, family: int) -> list[Connection]:
        """The connection table of one family."""
        table, size = self._maps[_CT[family]], 4 if family == 4 else 16
        found = []
        for key in list(table.keys()):
            value = table.lookup(key)
            if value is None:
                continue
            target, source = (
                str(ipaddress.ip_address(key[start : start + size])) for start in (0, size)
            )
            target_port, source_port, proto, flags = struct.unpack_from("!HHBB", key, 2 * size)
            received, _, sent, _, lifetime = struct.unpack_from("=QQQQI", value)
            direction: Literal["out", "in"] = "in" if flags & 1 else "out"
            found.append(
                Connection(
                    source,
                    target,
                    proto,
                    source_port,
                    target_port,
                    direction,
                    bool(flags & 2),
                    received,
                    sent,
                    lifetime,
                )
            )
        return found

    def expire(self, now: float | None = None) -> int:
        """Removes connections whose lifetime ended before ``now`` (CLOCK_MONOTONIC seconds), as the
        agent does at intervals; how many.
        """
        moment = time.monotonic() if now is None else now
        gone = 0
        for name in _CT.values():
            table = self._maps[name]
            for key in list(table.keys()):
                value = table.lookup(key)
                if value is not None and struct.unpack_from("=I", value, 32)[0] < moment:
                    table.delete(key)
                    gone += 1
        return gone

    def close(self) -> None:
        """Gives up all maps and programs; may be called twice."""
        for item in self._policies.values():
            item.close()
        self._policies.clear()
        self._loaded.close()

    @staticmethod
    def _prefix_key(prefix: str) -> bytes:
        network = ipaddress.ip_network(prefix)
        family, address = _FAMILY[network.version], network.network_address.packed
        return struct.pack("=IHBB16s", 32 + network.prefixlen, 0, 0, family, address)

    @staticmethod
    def _endpoint_key(address: str) -> bytes:
        ip = ipaddress.ip_address(address)
        return struct.pack("=16sB3x", ip.packed, _FAMILY[ip.version])
