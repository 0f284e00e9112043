"""Which nodes are chosen, and what is read of a node."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cnibench.clusters.kubernetes.nodes import pids_limit
from cnibench.clusters.kubernetes.nodes.environment import _device
from cnibench.clusters.kubernetes.nodes.nodes import (
    Facts,
    Taint,
    Wanted,
    choose,
    facts,
    matches,
    tolerated,
    toleration,
)
from cnibench.errors import UsageError
from cnibench.system.process import Done
from tests.unit._kubernetes_nodes import CONTROL, node, taint


def chosen(
    *nodes: dict[str, Any], families: tuple[int, ...] = (4,), **wanted: Any
) -> tuple[str, str]:
    client, server = choose([facts(item) for item in nodes], Wanted(**wanted), families)
    return client.name, server.name


def test_driver_of_a_physical_nic_is_recorded() -> None:
    """ip link has a kind only for virtual devices."""
    said = {
        "-i": "driver: mlx5_core\nversion: 6.1.0\nbus-info: 0000:3b:00.0\n",
        "-k": "Features for eth0:\nrx-gro: on\ntx-lro: off\n",
    }
    one: Any = SimpleNamespace(
        device="eth0",
        read_text=lambda path: "1500\n" if path.endswith("/mtu") else "25000\n",
        run=lambda argv, timeout: Done(tuple(argv), 0, said[argv[1]], "", 0.0),
    )
    assert _device(one) == {
        "mtu": "1500",
        "speed": "25000",
        "features": {"rx-gro": "on"},
        "driver": "mlx5_core",
    }


def test_two_workers_are_chosen_before_the_control_plane() -> None:
    assert chosen(CONTROL, node("z"), node("y")) == ("y", "z")
    with pytest.raises(
        UsageError, match=r"c is tainted node-role\.kubernetes\.io/control-plane:NoSchedule"
    ):
        chosen(CONTROL, node("y"))
    assert chosen(
        CONTROL, node("y"), tolerations=(toleration("node-role.kubernetes.io/control-plane"),)
    ) == ("y", "c")


def test_both_ends_of_a_pair_have_one_architecture() -> None:
    nodes = (node("x"), node("y", arch="amd64"), node("z", arch="amd64"))
    assert chosen(*nodes, client="z") == ("z", "y")
    assert chosen(*nodes, server="z") == ("y", "z")
    assert chosen(*nodes[1:], node("w", arch="")) == ("w", "y")
    with pytest.raises(UsageError, match="no node for the server: y is amd64, and x is arm64"):
        chosen(*nodes)
    with pytest.raises(UsageError, match="no node for the client: x is arm64, and z is amd64"):
        chosen(*nodes, client="x", server="z")


def test_names_and_selectors_choose() -> None:
    nodes = (
        node("x"),
        node("y", labels={"zone": "a", "disk": "ssd"}),
        node("z", unschedulable=True),
    )
    assert chosen(*nodes, client="y") == ("y", "x")
    assert chosen(*nodes, server="x") == ("y", "x")
    assert chosen(*nodes, client_selector="zone=a,disk!=hdd") == ("y", "x")
    assert chosen(*nodes, client="z", server="y") == ("z", "y")
    with pytest.raises(UsageError, match="there is no node 'w'"):
        chosen(*nodes, client="w")
    with pytest.raises(UsageError, match="z is cordoned"):
        chosen(node("x"), node("z", unschedulable=True))
    with pytest.raises(UsageError, match="does not have the labels zone=b"):
        chosen(*nodes, server_selector="zone=b")
    with pytest.raises(UsageError, match="are the same"):
        chosen(*nodes, client="x", server="x")


def test_a_node_that_only_lacks_its_cni_is_taken_and_others_that_are_not_ready_are_not() -> None:
    waiting = node("x", ready=False, taints=[taint("node.kubernetes.io/not-ready")])
    assert chosen(waiting, node("y")) == ("x", "y")
    with pytest.raises(UsageError, match="is not Ready"):
        chosen(node("x", ready=False), node("y"))
    with pytest.raises(UsageError, match="runs windows"):
        chosen(node("x", system="windows"), node("y"))


def test_families_are_asked_of_the_nodes() -> None:
    both = node("x", addresses=["192.0.2.1", "2001:db8::1"])
    six = node("y", addresses=["2001:db8::2"])
    assert facts(both).addresses == {4: "192.0.2.1", 6: "2001:db8::1"}
    assert chosen(both, six, families=(6,)) == ("x", "y")
    with pytest.raises(UsageError, match="y has no IPv4 address"):
        chosen(both, six, families=(4, 6))


def test_tolerations_are_the_schedulers() -> None:
    gpu = Taint("gpu", "a", "NoSchedule")
    for text, expected in (
        ("gpu", True),
        ("gpu=a", True),
        ("gpu=b", False),
        ("gpu=a:NoExecute", False),
        ("all", True),
        ("other", False),
    ):
        assert tolerated(gpu, [toleration(text)]) is expected, text
    for wrong in ("", ":NoSchedule", "gpu:Never"):
        with pytest.raises(UsageError, match="--toleration takes"):
            toleration(wrong)


def test_selectors() -> None:
    labels = {"a": "1", "b": ""}
    for text, expected in (
        ("", True),
        ("a=1", True),
        ("a==1,b", True),
        ("a!=1", False),
        ("!c", True),
        ("c", False),
        ("!a", False),
    ):
        assert matches(labels, text) is expected, text
    with pytest.raises(UsageError, match="set-based"):
        matches(labels, "a in (1,2)")


def test_facts_survive_a_node_that_tells_little() -> None:
    bare = facts({"metadata": {"name": "x"}})
    assert isinstance(bare, Facts)
    assert not bare.ready


@pytest.mark.parametrize(
    ("table", "file"),
    [
        (
            "9:name=systemd:/libpod_parent/libpod-abc/init.scope\n8:pids:/libpod_parent/libpod-abc/init.scope\n0::/libpod_parent/libpod-abc\n",
            "pids/libpod_parent/libpod-abc/pids.max",
        ),
        (
            "0::/machine.slice/libpod-abc.scope/container/init.scope\n",
            "machine.slice/libpod-abc.scope/pids.max",
        ),
        (
            "0::/system.slice/docker-abc.scope/init.scope\n",
            "system.slice/docker-abc.scope/pids.max",
        ),
        ("0::/\n", ""),
        ("", ""),
    ],
)
def test_where_the_limit_of_a_nodes_processes_stands(table: str, file: str, tmp_path: Path) -> None:
    assert pids_limit.limit_of(table, "abc", tmp_path) == (tmp_path / file if file else None)
