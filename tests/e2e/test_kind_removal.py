"""What a CNI's removal takes, and what it never takes: objects of others, what nodes had before,
anything that is not shown and saved. Definitions of others beside Cilium's: test_kind_policies.py.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _kind_cluster import Kept
from _kind_runs import until
from _kubectl import applied, got, kubectl, uids

from cnibench.clusters.kubernetes import install
from cnibench.clusters.kubernetes.api.objects import HOST
from cnibench.clusters.kubernetes.removal import eviction
from cnibench.clusters.kubernetes.removal.record import Record
from cnibench.clusters.kubernetes.removal.selection import BlockedError
from cnibench.errors import ClusterError
from cnibench.model.profile import builtin

pytestmark = pytest.mark.timeout(600)
MINE = "flannel.77"  # by its name it could be flannel's
OWN = f"""
set -e
ip link add {MINE} type bridge; ip link set {MINE} addrgenmode none; ip link set {MINE} up
iptables -t nat -N CNI-DN-SOMEBODYS; iptables -t nat -A OUTPUT -d 192.0.2.1 -j CNI-DN-SOMEBODYS
ip route add 10.244.250.0/24 dev {MINE}
mkdir -p {HOST}/run/flannel {HOST}/var/lib/cni/flannel && echo mine > {HOST}/run/flannel/mine
mkdir -p {HOST}/root/target && echo keep > {HOST}/root/target/file && ln -sfn /root/target {HOST}/var/lib/cni/flannel/link
"""  # noqa: E501
# What libcni keeps of a Pod that is gone, and that no plugin was called for.
RESULT = {
    "kind": "cniCacheV1",
    "networkName": "cbr0",
    "result": {"interfaces": [{"name": "eth0", "sandbox": "/var/run/netns/cni-gone"}]},
}
STALE = f"""
mkdir -p {HOST}/var/lib/cni/results; echo "$1" > {HOST}/var/lib/cni/results/cbr0-gone-eth0
"""
OWN_GONE = f"""
ip link del {MINE}; iptables -t nat -D OUTPUT -d 192.0.2.1 -j CNI-DN-SOMEBODYS; iptables -t nat -X CNI-DN-SOMEBODYS
rm -rf {HOST}/run/flannel {HOST}/root/target {HOST}/var/lib/cni/flannel
"""  # noqa: E501


@pytest.fixture(scope="module")
def kept(bare_cluster: Kept) -> Iterator[Kept]:
    yield bare_cluster
    bare_cluster.remove()
    assert install.recorded(bare_cluster.access) == ""


def config(name: str, namespace: str, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, **more},
        "data": {"a": "b"},
    }


def test_what_others_have_blocks_what_is_saved_comes_back_and_is_replaced(
    kept: Kept, tmp_path: Path
) -> None:
    """Flannel: in its namespace are a ConfigMap and a Secret of somebody else; a node had things
    with names like flannel's.
    """
    access, flannel, node = kept.access, builtin()["flannel"], kept.nodes[0]
    node.run(["sh", "-c", OWN], timeout=30)
    before = kept.state()
    try:
        kept.install(flannel)
        kept.ready(flannel)
        applied(
            access, config("somebodys", "kube-flannel", finalizers=["example.org/somebody-waits"])
        )
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "hidden", "namespace": "kube-flannel"},
            "data": {"a": "Yg=="},
        }
        applied(access, secret)
        there = uids(kept.access, "all,configmaps,secrets", "-n", "kube-flannel")
        with pytest.raises(BlockedError) as error:
            kept.remove()
        assert "ConfigMap kube-flannel/somebodys" in error.value.message
        assert "Secret kube-flannel/hidden" in error.value.message
        assert "kubectl delete" in error.value.remedy
        assert uids(kept.access, "all,configmaps,secrets", "-n", "kube-flannel") == there, (
            "nothing was deleted"
        )
        kubectl(
            access,
            "patch",
            "configmap",
            "somebodys",
            "-n",
            "kube-flannel",
            "--type=merge",
            "-p",
            '{"metadata":{"finalizers":null}}',
        )
        kubectl(access, "delete", "configmap/somebodys", "secret/hidden", "-n", "kube-flannel")

        owner = got(access, "daemonset", "kube-flannel-ds", "-n", "kube-flannel")["metadata"]
        reference = {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "name": owner["name"],
            "uid": owner["uid"],
        }
        applied(access, config("with-its-owner", "kube-flannel", ownerReferences=[reference]))
        plan = install.planned(access)
        assert plan is not None
        shown = install.preview(access, plan)
        with_owner = (
            "ConfigMap kube-flannel/with-its-owner (written by others, goes with its owner)"
        )
        assert {
            "DaemonSet kube-flannel/kube-flannel-ds",
            "Namespace kube-flannel",
            "ClusterRole flannel",
            with_owner,
        } <= set(shown)
        assert "devices flannel.*" in install.outlook(plan)
        configuration = "/etc/cni/net.d/10-flannel.conflist"
        theirs = node.read_text(configuration)
        node.run(["sh", "-ec", STALE, "sh", json.dumps(RESULT)], timeout=30)
        said: list[str] = []
        install.uninstall(access, None, {}, kept.nodes, saved=tmp_path / "saved", say=said.append)
        assert "kube-flannel" not in uids(kept.access, "namespaces")
        assert kept.left(before) == []
        had = node.run(
            ["sh", "-c", f"ip link show {MINE}; ip route show 10.244.250.0/24; iptables -t nat -S"],
            timeout=30,
        ).stdout
        assert "CNI-DN-SOMEBODYS" in had
        assert f"10.244.250.0/24 dev {MINE}" in had
        files = node.run(
            [
                "sh",
                "-c",
                f"cat {HOST}/run/flannel/mine {HOST}/root/target/file; ls {HOST}/run/flannel",
            ],
            timeout=30,
        ).stdout
        assert files.split() == ["mine", "keep", "mine"]

        archives = [tmp_path / "saved" / f"flannel-node-{one.facts.name}.tar" for one in kept.nodes]
        saved, listed = tmp_path / "saved/flannel.yaml", tmp_path / "saved/flannel-nodes.txt"
        commands = tmp_path / "saved" / "flannel-node-objects.sh"
        assert set((tmp_path / "saved").iterdir()) == {saved, listed, commands, *archives}
        assert {tuple(line.split()[:4]) for line in commands.read_text().splitlines()} == {
            ("kubectl", "annotate", "node", one.facts.name) for one in kept.nodes
        }
        assert commands.read_text().count("flannel.alpha.coreos.com/backend-data=") == 2
        assert str(commands) in said[-1]
        assert str(saved) in said[0]
        assert with_owner in said[1]
        for one, archive, words in zip(kept.nodes, archives, said[2:-1], strict=True):
            assert words.startswith(f"removed from node {one.facts.name}: ")
            for what in ("device flannel.1", "chain FLANNEL-POSTRTG", configuration, str(archive)):
                assert what in words
            for what in (MINE, "SOMEBODYS", "10.244.250.0", "/run/flannel/mine"):
                assert what not in words
            assert archive.stat().st_mode & 0o777 == 0o600
        assert "  device flannel.1" in listed.read_text().splitlines()
        with tarfile.open(archives[0]) as opened:
            member = opened.extractfile(configuration[1:])
            assert member is not None
            assert member.read().decode() == theirs
        assert saved.stat().st_mode & 0o777 == listed.stat().st_mode & 0o777 == 0o600
        assert "name: with-its-owner" in saved.read_text()
        kubectl(access, "apply", "--server-side", "-f", str(saved), timeout=60)
        kept.ready(flannel)

        plan = install.planned(
            access, flannel, kept.settings(flannel), kept.variables
        )  # nothing is recorded of this one
        assert plan is not None
        assert plan.record is None
        # What comes back has no owner any more, for that has another UID: now it blocks.
        with pytest.raises(BlockedError, match="ConfigMap kube-flannel/with-its-owner"):
            install.preview(access, plan)
        kubectl(access, "delete", "configmap/with-its-owner", "-n", "kube-flannel")
        assert install.preview(access, plan) == [one for one in shown if one != with_owner]
        applied(access, config("somebodys", "kube-flannel"))
        with pytest.raises(BlockedError, match="ConfigMap kube-flannel/somebodys"):
            install.uninstall(access, None, kept.variables, kept.nodes, plan=plan)
        kubectl(access, "delete", "configmap/somebodys", "-n", "kube-flannel")
        node.run(["sh", "-c", OWN_GONE], timeout=30)
        assert "whoever made it" in install.outlook(plan)
        said.clear()
        again = tmp_path / "again"
        install.uninstall(
            access, None, kept.variables, kept.nodes, plan=plan, saved=again, say=said.append
        )
        assert all("device flannel.1" in words for words in said[2:-1])
        assert len(list(again.glob("*.tar"))) == len(kept.nodes) == len(said[2:-1])
        assert "kube-flannel" not in uids(kept.access, "namespaces")
        assert not [
            key
            for item in got(access, "nodes")["items"]
            for key in item["metadata"]["annotations"]
            if "flannel" in key
        ]
    finally:
        node.run(["sh", "-c", OWN_GONE], timeout=30, check=False)
    assert kept.left(kept.bare) == []


def test_what_others_made_is_not_overwritten(kept: Kept) -> None:
    access = kept.access
    kubectl(access, "create", "clusterrole", "flannel", "--verb=get", "--resource=pods")
    try:
        theirs = got(access, "clusterrole", "flannel")
        with pytest.raises(
            ClusterError, match="would overwrite what others made: ClusterRole flannel"
        ):
            kept.install(builtin()["flannel"])
        assert got(access, "clusterrole", "flannel") == theirs
        assert install.recorded(access) == ""
        assert "kube-flannel" not in uids(kept.access, "namespaces")
    finally:
        kubectl(access, "delete", "clusterrole", "flannel")


def test_an_installation_that_ended_before_it_noted_anything_is_removed(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process is gone after it applied, and before it wrote down the UIDs; a namespace with the
    CNI's name was there before.
    """
    access, real = kept.access, Record.note

    def ends(self: Record, rest: Any) -> None:
        if any(self.applied.values()):
            raise KeyboardInterrupt
        real(self, rest)

    kubectl(access, "create", "namespace", "kube-flannel")
    try:
        theirs = uids(kept.access, "namespaces")["kube-flannel"]
        monkeypatch.setattr(Record, "note", ends)
        # a process that was killed removes nothing
        monkeypatch.setattr(install, "uninstall", lambda *gone: None)
        with pytest.raises(KeyboardInterrupt):
            kept.install(builtin()["flannel"])
        monkeypatch.undo()
        assert "kube-flannel-ds" in uids(kept.access, "daemonsets", "-n", "kube-flannel")
        until(lambda: "flannel" in uids(kept.access, "serviceaccounts", "-n", "kube-flannel"))
        kept.remove()
        assert uids(kept.access, "namespaces")["kube-flannel"] == theirs
        assert uids(kept.access, "daemonsets", "-n", "kube-flannel") == {}
        assert "flannel" not in uids(kept.access, "clusterroles")
    finally:
        kubectl(access, "delete", "namespace", "kube-flannel", timeout=60)
    assert kept.left(kept.bare) == []


def test_what_helm_installed_is_its_release(kept: Kept) -> None:
    """Although its name and values are not those of the profile: what helm made with them, and its
    own record of it.
    """
    access, flannel = kept.access, builtin()["flannel"]
    release = ("--namespace", "kube-flannel", "--set", "podCidr=10.244.0.0/16")
    chart = (kept.charts["flannel"], "--create-namespace")
    access.helm("install", "mine", *chart, *release, timeout=60)
    try:
        plan = install.planned(access, flannel, kept.settings(flannel), kept.variables)
        assert plan is not None
        shown = install.preview(access, plan)
        assert "Secret kube-flannel/sh.helm.release.v1.mine.v1" in shown
        assert "DaemonSet kube-flannel/kube-flannel-ds" in shown
        install.uninstall(access, None, kept.variables, kept.nodes, plan=plan)
        assert access.helm("list", "--all-namespaces", "--short").stdout.strip() == ""
    finally:
        kubectl(access, "delete", "namespace", "kube-flannel", "--ignore-not-found", timeout=60)
    assert kept.left(kept.bare) == []


def test_what_somebody_adds_while_the_removal_runs_stays_and_the_rest_goes_later(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    access = kept.access
    monkeypatch.setattr(
        eviction, "_LEAVING", 5.0
    )  # Pods that no CNI can take off the network any more
    kept.install(builtin()["flannel"])
    with (
        monkeypatch.context() as patch
    ):  # at this moment everything has been looked at, and nothing is deleted yet
        patch.setattr(
            eviction,
            "await_teardown",
            lambda *_: applied(access, config("somebodys", "kube-flannel")),
        )
        with pytest.raises(ClusterError, match="in the meantime: ConfigMap kube-flannel/somebodys"):
            kept.remove()
    assert install.recorded(access) == "flannel"
    assert {"somebodys"} <= uids(kept.access, "configmaps", "-n", "kube-flannel").keys()
    assert uids(kept.access, "daemonsets", "-n", "kube-flannel") == {}
    kubectl(access, "delete", "configmap", "somebodys", "-n", "kube-flannel")
    kept.remove()
    assert "kube-flannel" not in uids(kept.access, "namespaces")
    assert kept.left(kept.bare) == []
