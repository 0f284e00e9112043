"""What the proof of a Pod network's MTU takes as proven."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cnibench.clusters.kubernetes.cni import attest
from cnibench.errors import ClusterError
from cnibench.model.profile import builtin


@pytest.mark.parametrize(
    ("route", "largest", "passed"),
    [
        (1450, 1450, True),
        (1450, 1449, False),  # a full packet is lost
        (1450, 1451, False),  # one byte more passes: the path's MTU is not what is claimed
        (1500, 1450, False),
        (1449, 1450, False),
    ],
)
def test_the_mtu_is_proven_from_both_sides(
    monkeypatch: pytest.MonkeyPatch, route: int, largest: int, passed: bool
) -> None:
    """flannel's VXLAN takes 50 bytes of the wire's 1500."""
    assert _proof(monkeypatch, "flannel", route, largest) == [("mtu", passed, 4)]


@pytest.mark.parametrize(
    ("route", "largest", "passed"),
    [
        (1500, 1480, True),  # the Pod has not sent anything larger yet
        (1480, 1480, True),  # it has
        (1500, 1500, False),
        (1460, 1480, False),
    ],
)
def test_pods_with_the_wires_mtu_learn_that_of_the_path(
    monkeypatch: pytest.MonkeyPatch, route: int, largest: int, passed: bool
) -> None:
    assert _proof(monkeypatch, "kube-router-ipip", route, largest) == [("mtu", passed, 4)]


@pytest.mark.parametrize(
    ("subnet", "route", "largest", "passed"),
    [
        (True, 1500, 1500, True),
        (True, 1500, 1480, False),
        (False, 1500, 1480, True),  # through the tunnel, and nothing larger was sent yet
        (False, 1480, 1480, True),
        (False, 1500, 1500, False),
    ],
)
def test_a_tunnel_between_subnets_takes_its_bytes_there_alone(
    monkeypatch: pytest.MonkeyPatch, subnet: bool, route: int, largest: int, passed: bool
) -> None:
    found = _proof(monkeypatch, "kube-router-default", route, largest, subnet)
    assert found == [("mtu", passed, 4)]


def _proof(
    monkeypatch: pytest.MonkeyPatch, profile: str, route: int, largest: int, subnet: bool = True
) -> list[tuple[str, bool, int]]:
    node = SimpleNamespace(device="eth0", read_text=lambda path: "1500\n")
    client = SimpleNamespace(node=node)
    server = SimpleNamespace(node=node, addresses={4: "10.0.0.2"})
    monkeypatch.setattr(attest, "one_subnet", lambda first, second, family: subnet)
    deployment: Any = SimpleNamespace(
        pair=lambda placement: (client, server),
        profile=builtin()[profile],
        attestation=lambda check, expected, observed, ok, family: (check, ok, family),
    )
    monkeypatch.setattr(attest, "path_mtu", lambda pod, address: route)
    monkeypatch.setattr(
        attest.probe,
        "datagram",
        lambda pod, address, size, limit=1.0: "" if size <= largest else "EMSGSIZE",
    )
    return list(attest._mtu(deployment, 4))


def test_a_pod_without_a_route_says_what_it_has() -> None:
    """A real answer of ip(8) where a Pod lost its device."""

    def run(argv: list[str], timeout: float, check: bool = True) -> SimpleNamespace:
        if argv[0] == "ip":
            return SimpleNamespace(returncode=2, stdout="")
        return SimpleNamespace(returncode=0, stdout="lo   UNKNOWN   127.0.0.1/8 \n")

    pod: Any = SimpleNamespace(
        name="a0", run=run, node=SimpleNamespace(facts=SimpleNamespace(name="worker"))
    )
    with pytest.raises(ClusterError) as failed:
        attest.path_mtu(pod, "10.244.0.8")
    assert failed.value.message == (
        "the Pod a0 has no route to 10.244.0.8; it has lo UNKNOWN 127.0.0.1/8"
    )
    assert "the CNI's Pod on worker" in failed.value.remedy
