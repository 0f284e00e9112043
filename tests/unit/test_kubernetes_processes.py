"""Which processes on a node are the CNI's, and when they are looked for again."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cnibench.clusters.kubernetes.connection.gateway import Gateway
from cnibench.clusters.kubernetes.nodes import places, processes
from cnibench.clusters.kubernetes.nodes.places import KubernetesNode
from cnibench.errors import ClusterError
from cnibench.model.profile import builtin
from tests.unit._local_stream import Local

UID = "0f9e8d7c-1111-2222-3333-444455556666"
PROXY_UID = "1f9e8d7c-1111-2222-3333-444455556666"


class Cluster:
    """Stands in for Access: the API has one Pod of the CNI, and what would run on the node runs
    here.
    """

    def __init__(self, ready: bool = True) -> None:
        self.ready = ready
        self.asked = 0

    def start(self, namespace: str, pod: str, argv: Sequence[str], **_: Any) -> Local:
        return Local(argv)

    def hidden(self, text: str) -> str:
        return text

    def look_up(self, what: str, namespace: str) -> dict[str, Any]:
        return {
            "metadata": {"namespace": namespace},
            "spec": {"selector": {"matchLabels": {"app": what.rpartition("/")[2]}}},
        }

    def listed(self, kind: str, namespace: str, *, labels: str) -> list[dict[str, Any]]:
        self.asked += 1
        state = {"conditions": [{"type": "Ready", "status": str(self.ready)}]}
        uid = PROXY_UID if "kube-proxy" in labels else UID
        return [{"metadata": {"uid": uid}, "spec": {"nodeName": "worker"}, "status": state}]


class Tree:
    """A folder like /proc: what the kernel says of real processes, in the control groups that the
    test gives them.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, pid: int, name: str, uid: str = UID) -> None:
        place = self.folder / str(pid)
        place.mkdir()
        (place / "cgroup").write_text(
            f"0::/kubepods-besteffort.slice/kubepods-pod{uid.replace('-', '_')}.slice/cri.scope\n"
        )
        (place / "comm").write_text(f"{name}\n")
        (place / "stat").symlink_to(f"/proc/{pid}/stat")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    monkeypatch.setattr(processes, "_PROC", str(tmp_path))
    monkeypatch.setattr(processes, "_STAYS", 0.01)
    monkeypatch.setattr(places, "HOST", "")  # where the agent has the node's files
    return Tree(tmp_path)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def known(cluster: Cluster) -> Iterator[processes.Processes]:
    facts: Any = SimpleNamespace(name="worker", addresses={})
    node = KubernetesNode("a", facts, Gateway(cluster, "space", "agent", "node a"), host=True)  # type: ignore[arg-type]
    yield processes.Processes(cluster, builtin()["flannel"], [node])  # type: ignore[arg-type]
    node.gateway.close()


@pytest.fixture
def sleepers() -> Iterator[list[subprocess.Popen[bytes]]]:
    made = [subprocess.Popen(["sleep", "60"]) for _ in range(5)]
    yield made
    for process in made:
        process.kill()
        process.wait()


def test_what_is_looked_for_on_a_node(
    known: processes.Processes,
    tree: Tree,
    sleepers: list[subprocess.Popen[bytes]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not sandboxes, other Pods, or what has ended a moment later (the program of a probe)."""
    first, second, pause, other, probe = (process.pid for process in sleepers)

    def later(seconds: float) -> None:
        assert seconds > 0
        sleepers[-1].kill()
        sleepers[-1].wait()

    monkeypatch.setattr(processes, "time", SimpleNamespace(sleep=later))
    tree.add(probe, "flanneld")
    tree.add(first, "flanneld")
    tree.add(second, "a (name) 1")
    tree.add(pause, "pause")
    tree.add(other, "coredns", "00000000-1111-2222-3333-444455556666")
    known.look()
    assert {name: pid for name, (_, pid) in known.found.items()} == {
        "flanneld on a": first,
        "a (name) 1 on a": second,
    }


def test_kube_proxy_is_looked_for_where_its_mode_was_asked_for(
    known: processes.Processes, tree: Tree, sleepers: list[subprocess.Popen[bytes]]
) -> None:
    first, proxy = (process.pid for process in sleepers[:2])
    tree.add(first, "flanneld")
    tree.add(proxy, "kube-proxy", PROXY_UID)
    known.look()
    assert set(known.found) == {"flanneld on a"}
    for mode, names in (
        ("nftables", {"flanneld on a", "kube-proxy on a"}),
        ("ebpf", {"flanneld on a"}),
    ):
        known.profile = known.profile.model_copy(update={"proxy": mode})
        known.look()
        assert set(known.found) == names


def test_one_that_is_gone_is_looked_for_again(
    known: processes.Processes,
    cluster: Cluster,
    tree: Tree,
    sleepers: list[subprocess.Popen[bytes]],
) -> None:
    """Between cells; the API is asked only then, and at each cell while its Pod is not Ready."""
    old, new = sleepers[:2]
    tree.add(old.pid, "flanneld")
    known.look()
    asked = cluster.asked
    known.reset_state()
    assert cluster.asked == asked
    old.kill()
    old.wait()
    cluster.ready = False
    known.reset_state()
    assert {name: pid for name, (_, pid) in known.found.items()} == {"flanneld on a": old.pid}, (
        "so that its absence is told"
    )
    tree.add(new.pid, "flanneld")
    cluster.ready = True
    known.reset_state()
    assert {name: pid for name, (_, pid) in known.found.items()} == {"flanneld on a": new.pid}
    asked = cluster.asked
    known.reset_state()
    assert cluster.asked == asked


def test_files_of_a_node_that_are_gone_are_distinguished_from_errors(
    known: processes.Processes, tmp_path: Path
) -> None:
    (node,) = known.nodes
    own = f"/proc/{os.getpid()}/comm"
    comm = Path(own).read_text()
    assert node.read_each([own, f"/proc/{2**22 + 1}/comm", own]) == [comm, None, comm]
    assert node.read_each([]) == []
    with pytest.raises(ClusterError, match="Is a directory"):
        node.read_each([own, "/proc/self/fd"])
