"""The listing of routes: next hop objects are compared by what they are, not by their numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from cnibench.clusters.lab.namespaces import links
from cnibench.clusters.lab.namespaces.netns import Namespace
from cnibench.listing.listing import Listing, listing


@pytest.fixture
def spaces() -> Iterator[list[Namespace]]:
    with ExitStack() as stack:
        made = []
        for number in range(3):
            ns = Namespace(f"routing-test-{number}")
            stack.callback(ns.remove)
            links.veth(ns, "d0", ns, "d1")
            ns.run(["ip", "address", "add", "10.9.0.1/24", "dev", "d0"])
            made.append(ns)
        yield made


def routed(ns: Namespace, near: int, far: int, group: int, gateway: str) -> Listing:
    """Two next hops and a group of them under these numbers, with a route to each."""
    for words in (
        f"nexthop add id {near} dev d0",
        f"nexthop add id {far} via {gateway} dev d0",
        f"nexthop add id {far + 10} via 10.9.0.3 dev d0",
        f"nexthop add id {group} group {far},2/{far + 10}",
        f"route add 10.10.0.0/24 nhid {near}",
        f"route add 10.11.0.0/24 nhid {far}",
        f"route add 10.12.0.0/24 nhid {group}",
    ):
        ns.run(["ip", *words.split()])
    found = listing({"a": ns})
    return {name: found[f"a: {name}"] for name in ("routes", "next hops")}


def test_numbers_do_not_count_and_gateways_do(spaces: list[Namespace]) -> None:
    first, renumbered, other = spaces
    declared = routed(first, 4, 5, 20, "10.9.0.2")
    assert routed(renumbered, 9, 6, 30, "10.9.0.2") == declared
    changed = routed(other, 4, 5, 20, "10.9.0.4")
    assert changed["next hops"] != declared["next hops"]
    assert changed["routes"] != declared["routes"]
    assert any("weight 2" in line for line in declared["next hops"])
