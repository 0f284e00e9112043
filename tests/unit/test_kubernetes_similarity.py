"""Two nodes beside each other: what differs, what disturbs, what was not seen; the nodes of further
pairs. Facts here are invented.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from cnibench.clusters.existing import ExistingCluster
from cnibench.clusters.kubernetes.nodes import agents, similarity
from cnibench.clusters.kubernetes.nodes.nodes import Wanted, choose, facts, more, toleration
from cnibench.clusters.kubernetes.ownership import safety
from cnibench.model.cell import Cell
from cnibench.offload import tunnel_support
from cnibench.offload.nic import Nic
from cnibench.system import ethtool_output
from cnibench.system.ethtool import Feature
from cnibench.testbed.capabilities.node_inspection import Remark
from cnibench.testbed.cluster import Options
from cnibench.testbed.cluster_options import ClusterOptions
from tests.unit._kubernetes_nodes import CONTROL, node

QUIET: dict[str, Any] = {
    "kernel": "6.1",
    "architecture": "x86_64",
    "cpu_model": "Some CPU",
    "cpus": 8,
    "governor": "performance",
    "smt": "off",
    "turbo": "off",
    "virtual": "no",
    "mtu": "1500",
    "speed": "25000",
    "duplex": "full",
    "rings": "RX 1024 TX 1024",
    "interrupts": "8 of CPU 0-7",
    "rps": "",
    "irqbalance": "does not run",
    "synchronised": "yes",
}


def found(kind: str, **second: Any) -> list[Remark]:
    return [
        one for one in similarity.remarks({"a": QUIET, "b": QUIET | second}) if one.kind == kind
    ]


def test_quiet_nodes_that_are_alike_are_not_remarked_on() -> None:
    assert list(similarity.remarks({"a": QUIET, "b": QUIET})) == []


@pytest.mark.parametrize("name", sorted(similarity._COMPARED))
def test_each_difference_is_one_remark_with_advice(name: str) -> None:
    (one,) = found("differs", **{name: "else"})
    assert one.what.endswith(
        f"differs between the nodes: a: {QUIET[name] or 'not reported'}, b: else"
    )
    assert one.remedy


@pytest.mark.parametrize(
    ("fact", "words"),
    [
        ({"governor": "powersave"}, "node b: the frequency governor is 'powersave'"),
        ({"smt": "on"}, "node b: SMT is on"),
        ({"synchronised": "no"}, "node b: its clock is not synchronised"),
        ({"duplex": "half"}, "node b: the NIC runs at half duplex"),
    ],
)
def test_what_disturbs_is_reported_of_the_node_that_it_is_on(
    fact: dict[str, str], words: str
) -> None:
    (one,) = found("disturbs", **fact)
    assert one.what.startswith(words)
    assert one.remedy


def test_what_was_not_seen_is_said() -> None:
    nothing = dict.fromkeys(QUIET, "")
    said = [one.what for one in similarity.remarks({"a": nothing, "b": nothing})]
    assert len(said) == len(similarity._UNSEEN)
    assert all(line.startswith("nodes a, b: ") for line in said)
    assert next(one.what for one in found("unseen", governor="")).startswith(
        "node b: no frequency governor is reported"
    )


def test_clocks_are_apart_only_beyond_what_their_comparison_may_be_wrong_by() -> None:
    assert list(similarity.clocks("a", "b", (0.0009, 0.0001))) == []
    assert list(similarity.clocks("a", "b", (0.5, 0.6))) == []
    (one,) = similarity.clocks("a", "b", (-0.25, 0.0001))
    assert one.kind == "differs"
    assert one.what == "the clock of b is 250 ms behind that of a (to within 0.1 ms)"
    (one,) = similarity.clocks("a", "b", "Connection refused")
    assert (one.kind, "Connection refused" in one.what) == ("unseen", True)


def test_a_full_size_packet_that_does_not_pass_is_distinguished_from_no_packet_at_all() -> None:
    assert list(similarity.passing(1500, {("a", "b"): ("", ""), ("b", "a"): ("", "")})) == []
    (one,) = similarity.passing(9000, {("a", "b"): ("", ""), ("b", "a"): ("", "EMSGSIZE")})
    assert (one.kind, one.what) == (
        "disturbs",
        "a packet of 9000 B does not pass from b to a (EMSGSIZE)",
    )
    (one,) = similarity.passing(1500, {("a", "b"): ("not within 2 s", "")})
    assert one.kind == "unseen"


def test_nics_that_are_unlike() -> None:
    def nic(node: str, on: bool, **more: Any) -> Nic:
        return Nic(
            node,
            "eth0",
            underlay=True,
            features={"tx-tcp-segmentation": Feature(on), "tx-nocache-copy": Feature(on)},
            **more,
        )

    assert tunnel_support.unlike([nic("a", True), nic("b", True)]) == []
    assert tunnel_support.unlike([nic("a", True, firmware="1"), nic("b", False, firmware="2")]) == [
        "firmware differs between the nodes: a: 1, b: 2",
        "tx-tcp-segmentation differs between the nodes: a: on, b: off",
    ]
    assert tunnel_support.unlike([nic("a", True)]) == []
    table = "UDP over IPV4 flows use these fields for computing Hash flow key:\nIP SA\nIP DA\n"
    assert ethtool_output.parse_hash(table) == "sd"
    assert (
        ethtool_output.parse_hash(
            table + "L4 bytes 0 & 1 [TCP/UDP src port]\nL4 bytes 2 & 3 [TCP/UDP dst port]\n"
        )
        == "sdfn"
    )


def pairs(count: int, *names: str, **wanted: Any) -> list[str]:
    """The names of the nodes of so many pairs."""
    known = [facts(CONTROL), *(facts(node(name, labels={"zone": name[0]})) for name in names)]
    asked = Wanted(**wanted)
    return [one.name for one in more(known, choose(known, asked), asked, (4,), count)]


def test_further_pairs_take_further_nodes_as_long_as_there_are() -> None:
    assert pairs(1, "x", "y", "z") == ["x", "y"]
    assert pairs(2, "v", "w", "x", "y") == ["v", "w", "x", "y"]
    assert pairs(2, "x", "y", "z") == ["x", "y", "z"]
    assert pairs(9, "x", "y") == ["x", "y"]
    assert pairs(2, "x", "y", tolerations=(toleration("all"),)) == ["x", "y", "c"]
    assert pairs(2, "x", "y", "z", client="y") == ["y", "x"]
    assert pairs(2, "k1", "k2", "s1", "s2", client_selector="zone=k", server_selector="zone=s") == [
        "k1",
        "s1",
        "k2",
        "s2",
    ]
    assert pairs(2, "k1", "k2", "s1", client_selector="zone=k", server_selector="zone=s") == [
        "k1",
        "s1",
    ]


def test_further_nodes_have_the_same_architecture() -> None:
    known = [facts(node("x")), facts(node("y")), facts(node("z", arch="amd64"))]
    found = more(known, choose(known, Wanted()), Wanted(), (4,), 2)
    assert [one.name for one in found] == ["x", "y"]


def test_nodes_are_changed_only_where_that_was_allowed() -> None:
    cell = Cell(
        label="a",
        profile="a",
        placement="inter",
        workload="tcp-rr",
        params={"request": 1, "offload.wire": "none"},
    )
    harmless = [
        Cell(
            label="a",
            profile="a",
            placement="inter",
            workload="tcp-rr",
            params={"offload.pods": "tso-off"},
        )
    ]
    cluster = ExistingCluster(Options())
    cluster.__dict__["access"] = type("Access", (), {"context": "production"})()
    with pytest.raises(
        safety.RefusedError, match="would change the NICs of nodes of the context 'production'"
    ):
        cluster.permit([*harmless, cell])
    services = msgspec.structs.replace(cell, params={"services.count": 1000})
    with pytest.raises(safety.RefusedError, match="would add 1000 Services to the rules of all"):
        cluster.permit([*harmless, services])
    cluster.permit([*harmless, msgspec.structs.replace(cell, params={"services.count": 0})])
    allowed = ExistingCluster(Options(cluster=ClusterOptions(allow_node_changes=True)))
    allowed.permit([cell, services])


def test_images_and_names_of_a_run_are_made_in_one_place() -> None:
    making = agents.plan(
        "run",
        ClusterOptions(registry="mirror/x", pull_secret="mine"),
        tolerations=({"operator": "Exists"},),
    )
    assert (making.namespace, making.run, making.pull_secret) == ("run", "run", "mine")
    assert making.workload_image.startswith("mirror/x/workload:")
    assert agents.plan("run", ClusterOptions(), "space").namespace == "space"
