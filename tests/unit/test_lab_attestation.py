"""Which observations the lab's attestation takes as proof: frames and counters are given, the
decision is real.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from cnibench.clusters.lab.attestation import checks
from cnibench.clusters.lab.attestation.capture import Packet, Seen
from cnibench.clusters.lab.namespaces import wire
from tests.unit._attestations import Check


class Lab:
    """Two nodes, a pair of Pods on one and between both, and what is seen of their traffic."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **given: Any) -> None:
        self.options = SimpleNamespace(wire_offload=given.get("model", "vxlan"))
        self.wire_mtu = given.get("wire_mtu", 1500)
        self.mtu = self.path_mtu = 1450
        self.families = (4,)
        self.claim = SimpleNamespace(
            encapsulation=given.get("encapsulation", "vxlan"), policy=given.get("policy", "none")
        )
        self.profile = SimpleNamespace(
            features=SimpleNamespace(outer_checksum=given.get("outer_checksum"))
        )
        self.a, self.b = (
            SimpleNamespace(
                name=name,
                ns=f"ns-{name}",
                wire="eth0",
                addresses={4: f"192.0.2.{i}", 6: f"2001::{i}"},
            )
            for i, name in enumerate("ab", 1)
        )
        self.pods = {
            (node.name, role): SimpleNamespace(
                ns=f"ns-{role}-{node.name}",
                node=node,
                interface="eth0",
                addresses={4: f"10.0.{i}.{j}", 6: f"fd00:{i}::{j}"},
            )
            for i, node in enumerate((self.a, self.b))
            for j, role in enumerate(("client", "server", "stranger"))
        }
        self.datapath = SimpleNamespace(
            underlay_features=lambda node: given.get("underlay", {}),
            super_packets=given.get("super_packets", True),
            tunnel_on=lambda node, family: given.get("tunnel", ""),
            on_wire=lambda pod, family, opener, source: pod.addresses[family],
            checks=lambda: [Check("datapath", "", "", True)],
            namespaces=dict,
        )
        self.failures: dict[tuple[str, str], str] = {}
        self.sent: dict[str, list[Packet]] = {}
        self.streams: list[tuple[Any, ...]] = []
        self.datagrams: Callable[[int], str] = lambda size: "" if size <= 1450 else "EMSGSIZE"
        self.features: dict[str, dict[str, bool]] = {}
        self.counters: list[dict[str, int]] = []
        self.device = 1450
        self.through: set[str] = set()
        monkeypatch.setattr(checks, "time", SimpleNamespace(monotonic=lambda: 5.0))
        for module, name in (
            (checks.capture, "tapped"),
            (checks.capture, "watching"),
            (checks.probe, "stream"),
            (checks.probe, "datagram"),
            (checks.probe, "sent"),
            (checks.probe, "attempt"),
            (checks.probe, "reached"),
            (checks.features, "read"),
            (checks.links, "statistics"),
            (checks.links, "mtu"),
        ):
            monkeypatch.setattr(module, name, getattr(self, f"_{name}"))

    @property
    def deployment(self) -> Any:
        return self

    def nodes(self) -> tuple[Any, Any]:
        return self.a, self.b

    def pair(self, placement: str) -> tuple[Any, Any]:
        server = {"intra": "a", "inter": "b"}[placement]
        return self.pods["a", "client"], self.pods[server, "server"]

    def stranger(self, node: Any) -> Any:
        return self.pods[node.name, "stranger"]

    def attestation(self, *check: Any) -> Check:
        return Check(*check)

    def _tapped(self, nodes: Any) -> contextlib.AbstractContextManager[None]:
        assert nodes == self.nodes()
        return contextlib.nullcontext()

    @contextlib.contextmanager
    def _watching(self, node: Any) -> Iterator[Seen]:
        seen = Seen()
        yield seen
        seen.packets += self.sent.get(node.name, [])

    def _stream(self, client: str, server: str, target: str, family: int, size: int) -> str:
        self.streams.append((client, server, target, family, size))
        return self.failures.get((client, server), "")

    def _datagram(self, client: str, server: str, target: str, family: int, size: int) -> str:
        assert (client, server, target) == ("ns-client-a", "ns-server-b", "10.0.1.1")
        assert size == self.path_mtu
        return self.datagrams(size)

    @contextlib.contextmanager
    def _sent(
        self, client: str, server: str, target: str, family: int, size: int, limit: float
    ) -> Iterator[Any]:
        assert (client, server, target) == ("ns-client-a", "ns-server-b", "10.0.1.1")
        assert (size, limit) == (self.path_mtu + 1, 0.1)
        yield SimpleNamespace(missing=lambda: self.datagrams(size))

    def mtu_check(self) -> Check:
        with contextlib.ExitStack() as stack:
            (found,) = checks._mtu(self.deployment, 4, checks._larger(self.deployment, 4, stack))
        return found  # type: ignore[return-value]

    @contextlib.contextmanager
    def _attempt(self, client: str, server: str, target: str, family: int) -> Iterator[Any]:
        yield None, f"{client} to {server}"

    def _reached(self, listener: str, limit: float) -> bool:
        assert limit == pytest.approx(0.4)  # no time passes
        return listener in self.through

    def _read(self, ns: str, device: str) -> dict[str, bool]:
        assert device == "eth0"
        return self.features[ns]

    def _statistics(self, ns: str, name: str) -> dict[str, int]:
        return self.counters.pop(0)

    def _mtu(self, ns: str, device: str) -> int:
        assert ns == "ns-client-a"
        return self.device if device == "eth0" else -1

    def packets(self, kind: str, *lengths: int, way: str = "ab", **more: Any) -> list[Packet]:
        """Of the pair between the nodes: from a's client to b's server, or back (``ba``)."""
        client, server = (pod.addresses[4] for pod in self.pair("inter"))
        ends = (client, server) if way == "ab" else (server, client)
        return [Packet(kind, *ends, length, **more) for length in lengths]


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Lab]:
    return lambda **given: Lab(monkeypatch, **given)


def test_the_features_of_the_wire_are_those_of_the_model(lab: Callable[..., Lab]) -> None:
    it = lab(model="plain", underlay={"rx-gro": False})
    wanted = {**wire.bits("plain"), "rx-gro": False}
    odd = {**wanted, "tx-gre-segmentation": True, "rx-gro": True}
    del odd["tx-tcp-segmentation"]
    it.features = {"ns-a": wanted, "ns-b": odd}
    it.sent = {"a": [Packet("none", "192.0.2.1", "192.0.2.2", length) for length in (60, 3000)]}
    one, other, sizes = checks._wire(it.deployment)
    assert one == Check("wire-features-a", "offload model plain", "as the model says", True)
    assert other == Check(
        "wire-features-b",
        "offload model plain",
        "tx-tcp-segmentation off, tx-gre-segmentation on, rx-gro on",
        False,
    )
    assert sizes == Check("wire-offload", "frames longer than 1514 B", "longest 3000 B", True, 4)
    assert it.streams == [("ns-a", "ns-b", "192.0.2.2", 4, 192 * 1024)]
    it.failures["ns-a", "ns-b"] = "refused"
    assert list(checks._wire(it.deployment))[2].observed == "refused"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("given", "lengths", "failure", "expected", "passed"),
    [
        ({}, (100, 1515), "", "frames longer than 1514 B", True),
        ({}, (100, 1514), "", "frames longer than 1514 B", False),
        ({}, (), "", "frames longer than 1514 B", False),
        ({}, (1515,), "lost", "frames longer than 1514 B", False),
        ({"model": "plain"}, (100, 1514), "", "no frame longer than 1514 B", True),
        ({"model": "plain"}, (1515, 100), "", "no frame longer than 1514 B", False),
        ({"model": "plain"}, (), "", "no frame longer than 1514 B", False),
        ({"model": "none"}, (1514,), "", "no frame longer than 1514 B", True),
        ({"super_packets": False}, (1514,), "", "no frame longer than 1514 B", True),
        (
            {"underlay": {"tx-udp_tnl-segmentation": False}},
            (1514,),
            "",
            "no frame longer than 1514 B",
            True,
        ),
        ({"wire_mtu": 9216}, (9231,), "", "frames longer than 9230 B", True),
        ({"wire_mtu": 9217}, (100,), "", "frames of any length", True),
        ({"wire_mtu": 9217}, (), "", "frames of any length", False),
        ({"wire_mtu": 9217}, (100,), "lost", "frames of any length", False),
    ],
)
def test_the_length_of_frames_is_that_of_the_offload_model(
    lab: Callable[..., Lab],
    given: dict[str, Any],
    lengths: tuple[int, ...],
    failure: str,
    expected: str,
    passed: bool,
) -> None:
    it = lab(**given)
    packets = it.packets("vxlan", *lengths)
    found = checks._sizes(it.deployment, "offload-inter", packets, "vxlan", 6, failure)
    observed = failure or f"longest {max(lengths, default=0)} B"
    assert found.expected.startswith(expected)
    assert found[2:] == (observed, passed, 6)  # type: ignore[index]
    assert found[0] == "offload-inter"  # type: ignore[index]


def test_the_wire_itself_is_no_matter_of_the_datapath(lab: Callable[..., Lab]) -> None:
    it = lab(super_packets=False)
    found = checks._sizes(it.deployment, "wire-offload", it.packets("none", 3000), "none", 4, "")
    assert found.passed


def test_traffic_inside_a_node_arrives_and_stays_there(lab: Callable[..., Lab]) -> None:
    it = lab()
    it.sent = {"a": it.packets("none", 100)}
    reach, stays = checks.inside(it.deployment, 4)
    assert reach == Check("reach-intra", "a TCP stream arrives", "arrived", True, 4)
    assert stays == Check(
        "intra-stays-inside", "no packet of it on the wire", "0 packets on the wire", True, 4
    )
    assert it.streams == [("ns-client-a", "ns-server-a", "10.0.0.1", 4, 192 * 1024)]
    client, server = it.pair("intra")
    it.sent = {"a": [Packet("none", client.addresses[6], server.addresses[6], 100)] * 2}
    it.failures["ns-client-a", "ns-server-a"] = "no route"
    reach, stays = checks.inside(it.deployment, 6)
    assert reach == Check("reach-intra", "a TCP stream arrives", "no route", False, 6)
    assert stays[2:] == ("2 packets on the wire", False, 6)  # type: ignore[index]


def _between(it: Lab) -> dict[str, Check]:
    return {check[0]: check for check in checks._between(it.deployment, 4)}  # type: ignore[index, misc]


def test_traffic_between_nodes_is_encapsulated_both_ways(lab: Callable[..., Lab]) -> None:
    it = lab(encapsulation="ovs-vxlan", outer_checksum=True)
    data = it.packets("vxlan", 100, 3000, checksum=True)
    back = it.packets("vxlan", 60, 3000, way="ba", checksum=True)
    it.sent = {"a": data, "b": back}
    found = _between(it)
    assert all(check.passed for check in found.values())
    assert list(found) == [
        "reach-inter",
        "encapsulation",
        "outer-checksum",
        "encapsulation-replies",
        "outer-checksum-replies",
        "offload-inter",
        "reach-inter-back",
        "encapsulation-back",
        "outer-checksum-back",
        "encapsulation-back-replies",
        "outer-checksum-back-replies",
        "offload-inter-back",
    ]
    assert found["encapsulation"] == Check("encapsulation", "all vxlan", "2 packets vxlan", True, 4)
    assert found["outer-checksum"][1:] == ("in all packets", "in 2 of 2 packets", True, 4)
    assert found["reach-inter-back"] == Check(
        "reach-inter-back", "a TCP stream arrives", "arrived", True, 4
    )
    assert found["offload-inter"][1:3] == ("frames longer than 1514 B", "longest 3000 B")
    assert it.streams == [
        ("ns-client-a", "ns-server-b", "10.0.1.1", 4, 192 * 1024),
        ("ns-server-b", "ns-client-a", "10.0.0.0", 4, 192 * 1024),
    ]


def test_each_family_is_checked_by_its_own_addresses(lab: Callable[..., Lab]) -> None:
    it = lab(encapsulation="ipip", tunnel="tunl0")
    client, server = (pod.addresses[6] for pod in it.pair("inter"))
    it.sent = {
        "a": [Packet("ipip", client, server, 100)],
        "b": [Packet("ipip", server, client, 100)],
    }
    it.counters = [
        {"tx_bytes": n, "rx_bytes": n, "tx_packets": n} for n in (0, 0, 10**6, 10**6)
    ] * 2
    found = list(checks._between(it.deployment, 6))
    assert [check.ip for check in found] == [6] * len(found)
    assert len(found) == 10
    assert {stream[2:4] for stream in it.streams} == {(server, 6), (client, 6)}
    failing = [check[0] for check in found if not check.passed]  # type: ignore[index]
    assert failing == []


def test_another_encapsulation_or_none_is_no_proof(lab: Callable[..., Lab]) -> None:
    it = lab(outer_checksum=False)
    data = it.packets("vxlan", 100, checksum=True) + it.packets("none", 100)
    it.sent = {"a": data, "b": []}
    it.failures["ns-client-a", "ns-server-b"] = "reset"
    found = _between(it)
    assert found["reach-inter"][2:] == ("reset", False, 4)
    assert found["encapsulation"][1:] == ("all vxlan", "1 packets none, 1 packets vxlan", False, 4)
    assert found["outer-checksum"][1:] == ("in none", "in 1 of 2 packets", False, 4)
    assert found["encapsulation-replies"][1:] == (
        "all vxlan",
        "no packet of it on the wire",
        False,
        4,
    )
    assert not found["offload-inter"].passed
    assert "outer-checksum" not in _between(lab(outer_checksum=None))
    assert "outer-checksum" not in _between(lab(outer_checksum=True, encapsulation="ipip"))


@pytest.mark.parametrize("kind", ["wireguard", "esp"])
def test_of_encrypted_packets_all_count_and_plain_ones_betray(
    lab: Callable[..., Lab], kind: str
) -> None:
    it = lab(encapsulation=kind)
    hidden = [Packet(kind, "", "", 1514)] * 3
    it.sent = {"a": hidden, "b": hidden}
    assert _between(it)["encapsulation"][2:] == (f"3 packets {kind}", True, 4)
    it.sent = {"a": [*hidden, *it.packets("none", 100)], "b": hidden}
    assert _between(it)["encapsulation"][2:4] == (
        ", ".join(f"{count} packets {one}" for one, count in sorted({kind: 3, "none": 1}.items())),
        False,
    )


def test_only_frames_of_the_pair_count(lab: Callable[..., Lab]) -> None:
    it = lab()
    strange = [Packet("none", "10.9.9.9", "10.0.1.1", 9000)]
    it.sent = {
        "a": [*it.packets("vxlan", 2000), *strange],
        "b": it.packets("vxlan", 2000, way="ba"),
    }
    assert all(check.passed for check in _between(it).values())


def test_addresses_on_the_wire_are_those_of_opener_and_answerer(lab: Callable[..., Lab]) -> None:
    """A datapath that translates addresses shows others, depending on who opened and who sends."""
    it = lab(encapsulation="none")
    it.datapath.on_wire = lambda pod, family, opener, source: (
        f"{pod.node.name}-{opener}-{source}-{family}"
    )
    it.sent = {
        "a": [
            Packet("none", "a-True-True-4", "b-False-False-4", 3000),
            Packet("none", "a-False-True-4", "b-True-False-4", 3000),
        ],
        "b": [
            Packet("none", "b-False-True-4", "a-True-False-4", 3000),
            Packet("none", "b-True-True-4", "a-False-False-4", 3000),
        ],
    }
    found = _between(it)
    for name in ("", "-replies", "-back", "-back-replies"):
        assert found[f"encapsulation{name}"][2:4] == ("1 packets none", True)


@pytest.mark.parametrize(
    ("sent", "got", "back", "passed"),
    [
        (196608, 196608, 1, True),
        (196607, 300000, 1, False),
        (300000, 196607, 1, False),
        (196608, 196608, 0, False),
    ],
)
def test_the_tunnel_devices_count_the_stream(
    lab: Callable[..., Lab], sent: int, got: int, back: int, passed: bool
) -> None:
    it = lab(tunnel="vxlan0")

    def counters(tx_bytes: int, rx_bytes: int, tx_packets: int) -> dict[str, int]:
        return {"tx_bytes": tx_bytes, "rx_bytes": rx_bytes, "tx_packets": tx_packets}

    once = [
        counters(1000, 5, 7),
        counters(9, 2000, 70),
        counters(1000 + sent, 6, 9),
        counters(10, 2000 + got, 70 + back),
    ]
    it.counters = once * 2
    found = _between(it)
    assert found["tunnel-device"] == Check(
        "tunnel-device",
        "vxlan0 counts at least 196608 B, and replies",
        f"{sent} B out of a's, {got} B into b's, {back} replies",
        passed,
        4,
    )
    assert found["tunnel-device-back"][2].startswith(f"{sent} B out of b's, {got} B into a's")
    assert not it.counters


@pytest.mark.parametrize(
    ("device", "largest", "passed"),
    [(1450, 1450, True), (1449, 1450, False), (1450, 1449, False), (1450, 1451, False)],
)
def test_the_mtu_is_proven_from_both_sides(
    lab: Callable[..., Lab], device: int, largest: int, passed: bool
) -> None:
    it = lab()
    it.device = device
    it.datagrams = lambda size: "" if size <= largest else "EMSGSIZE"
    found = it.mtu_check()
    full, more = ("passes" if size <= largest else "EMSGSIZE" for size in (1450, 1451))
    assert found == Check(
        "mtu",
        "device 1450 B; 1450 B with DF passes, 1451 B does not",
        f"device {device} B; 1450 B {full}; 1451 B {more}",
        passed,
        4,
    )
    it.pods["a", "client"].interface = ""  # on the node's own network
    it.a.wire = "wire0"
    assert "device -1 B" in it.mtu_check().observed


def test_the_mtu_of_a_path_that_is_narrower_than_the_pods(lab: Callable[..., Lab]) -> None:
    it = lab()
    it.mtu = it.device = 1500
    found = it.mtu_check()
    assert found[1:4] == (
        "device 1500 B; 1450 B with DF passes, 1451 B does not",
        "device 1500 B; 1450 B passes; 1451 B EMSGSIZE",
        True,
    )


def test_strangers_are_alive_and_stay_out(lab: Callable[..., Lab]) -> None:
    it = lab(policy="enforced")
    it.through = {"ns-stranger-a to ns-server-b"}
    it.failures["ns-b", "ns-stranger-b"] = "dead"
    with contextlib.ExitStack() as stack:
        begun = checks._begun(it.deployment, stack)
        found = list(checks._denied(it.deployment, begun))
    assert found == [
        Check("stranger-alive", "its node reaches it", "reached", True, 4),
        Check("stranger-alive-b", "its node reaches it", "dead", False, 4),
        *(
            Check(name, "a connection that no policy allows is denied", observed, passed, 4)
            for name, observed, passed in (
                ("denied-intra", "denied", True),
                ("denied-inter", "it got through", False),
                ("denied-inter-b", "denied", True),
                ("denied-intra-b", "denied", True),
            )
        ),
    ]
    assert it.streams == [
        ("ns-a", "ns-stranger-a", "10.0.0.2", 4, 1),
        ("ns-b", "ns-stranger-b", "10.0.1.2", 4, 1),
    ]


def test_an_attestation_has_every_check_in_order(
    lab: Callable[..., Lab], monkeypatch: pytest.MonkeyPatch
) -> None:
    for policy in ("none", "enforced"):
        it = lab(policy=policy)
        compared = [Check("kernel-state-a", "", "", True)]
        monkeypatch.setattr(it.deployment, "verify", compared.copy, raising=False)
        it.features = dict.fromkeys(("ns-a", "ns-b"), wire.bits("vxlan"))
        names = [check[0] for check in checks.attest(it.deployment)]  # type: ignore[index]
        assert [name for name in names if not name.startswith(("denied", "stranger"))] == [
            "kernel-state-a",
            "wire-features-a",
            "wire-features-b",
            "wire-offload",
            "reach-intra",
            "intra-stays-inside",
            "reach-inter",
            "encapsulation",
            "encapsulation-replies",
            "offload-inter",
            "reach-inter-back",
            "encapsulation-back",
            "encapsulation-back-replies",
            "offload-inter-back",
            "datapath",
            "mtu",
        ]
        assert len(names) == (16 if policy == "none" else 22)
