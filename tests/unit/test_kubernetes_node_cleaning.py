"""What goes from a node is shown and saved first: real devices, chains, routes and files, in a
network namespace and a folder that are the node's.
"""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cnibench.clusters.existing import ExistingCluster
from cnibench.clusters.existing.safeguards import GuardedCluster
from cnibench.clusters.kubernetes import install
from cnibench.clusters.kubernetes.api.kinds import Kind
from cnibench.clusters.kubernetes.cni import recognise
from cnibench.clusters.kubernetes.removal import nodes as removal
from cnibench.clusters.kubernetes.removal import uninstallation
from cnibench.clusters.kubernetes.removal.inventory import Thing
from cnibench.clusters.kubernetes.removal.node_cleaning import Cleaning, Found
from cnibench.clusters.kubernetes.removal.nodes import UntouchedError
from cnibench.clusters.kubernetes.removal.record import Record
from cnibench.clusters.kubernetes.removal.selection import Belongings, Known
from cnibench.clusters.kubernetes.removal.uninstallation import Removal, uninstall
from cnibench.errors import ClusterError
from cnibench.model.installation import Installation, Leaves
from cnibench.model.profile import builtin
from cnibench.testbed.capabilities.ownership import Leftover
from cnibench.testbed.cluster import Options

CONFIGURATION = "/etc/cni/net.d/10-cbtest.conflist"
LEAVES = Leaves(
    devices=("cbtest0", "cbtest1"),
    chains=("CBTEST-*",),
    nft_tables=("cbtest-*",),
    files=("/run/cbtest", "/opt/cni/bin/cbtest", CONFIGURATION),
    backups=".cbtest_bak",
)
NETWORK = """set -e
ip link add cbtest0 type bridge; ip link set cbtest0 up
ip link add other0 type bridge; ip link set other0 up
ip route add 10.244.1.0/24 dev other0; ip route add 192.0.2.0/24 dev other0
iptables-nft -t nat -N CBTEST-MASQ; iptables-nft -t nat -A POSTROUTING -j CBTEST-MASQ
iptables-nft -t nat -N OTHER; nft add table ip cbtest-own
"""
ROOT = pytest.mark.skipif("os.geteuid() != 0", reason="network namespaces take root")


@pytest.fixture
def about() -> Installation:
    found = builtin()["flannel"].kubernetes
    assert found is not None
    return found.model_copy(update={"leaves": LEAVES})


class Node:
    """Runs commands in a network namespace; its files are below ``root``."""

    name, host, settings = "a", True, "/proc/sys"
    facts = SimpleNamespace(name="worker-1")

    def __init__(self, holder: int) -> None:
        self.holder = holder

    def run(
        self, argv: list[str], *, timeout: float, input: str | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["nsenter", f"--net=/proc/{self.holder}/ns/net", "--", *argv],
            input=input,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=check,
        )

    def has(self) -> str:
        script = "ip link; ip route; iptables-nft -t nat -S; nft list tables"
        return self.run(["sh", "-c", script], timeout=10).stdout


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    where = tmp_path / "root"
    for name, text in {
        CONFIGURATION: "theirs",
        "/etc/cni/net.d/05-mine.conf.cbtest_bak": "put aside",
        "/etc/cni/net.d/99-other.conf": "other",
        "/run/cbtest/subnet.env": "MTU=1450",
        "/run/cbtest/deep/state": "state",
        "/run/cbtest/not\udcfftext\n": "",
        "/opt/cni/bin/cbtest": "p" * (2 << 20),
    }.items():
        (where / name[1:]).parent.mkdir(parents=True, exist_ok=True)
        (where / name[1:]).write_text(text)
    (where / CONFIGURATION[1:]).chmod(0o640)
    monkeypatch.setattr(removal, "HOST", str(where))
    return where


@pytest.fixture
def node() -> Iterator[Any]:
    with subprocess.Popen(
        ["unshare", "--net", "sh", "-c", "echo ready; exec sleep 300"], stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        try:
            assert holder.stdout.readline() == b"ready\n"
            made = Node(holder.pid)
            made.run(["sh", "-c", NETWORK], timeout=10)
            yield made
        finally:
            holder.kill()


@pytest.fixture
def empty_api(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster without an object of the CNI; all that happens is on the nodes."""
    inventory = SimpleNamespace(things=lambda: [], unseen=[], rest=None)
    monkeypatch.setattr(uninstallation, "Rest", lambda access: None)
    monkeypatch.setattr(uninstallation, "Inventory", lambda rest: inventory)
    for name in ("evict", "admit", "await_teardown"):
        monkeypatch.setattr(uninstallation.eviction, name, lambda *_: None)
    monkeypatch.setattr(uninstallation.node_objects, "clean", lambda *_: None)
    monkeypatch.setattr(uninstallation.node_objects, "restoring", lambda *_: [])
    # It would end processes of this machine.
    monkeypatch.setattr(uninstallation, "end_plugins", lambda node: None)


GOES = (
    "device cbtest0",
    "route 10.244.1.0/24 dev other0 scope link",
    "iptables-nft nat: chain CBTEST-MASQ",
    "iptables-nft nat: -A POSTROUTING -j CBTEST-MASQ",
    "nft table ip cbtest-own",
    "/etc/cni/net.d/05-mine.conf.cbtest_bak, which is named /etc/cni/net.d/05-mine.conf again",
)


@ROOT
@pytest.mark.usefixtures("empty_api")
def test_what_goes_from_a_node_is_shown_and_its_files_saved_first(
    node: Any, root: Path, about: Installation, tmp_path: Path
) -> None:
    """Of somebody else's CNI, where names alone decide."""
    said: list[str] = []
    there: list[str] = []
    saved = tmp_path / "saved"

    def say(words: str) -> None:
        said.append(words)
        there.append(node.has())

    plan = Removal("theirs", about, Known({}, "", ()), {"pod_cidr": "10.244.0.0/16"})
    access: Any = None
    uninstall(access, None, {}, [node], plan=plan, saved=saved, say=say)
    shown = next(words for words in said if words.startswith("removed from node worker-1: "))
    for what in (*GOES, CONFIGURATION, "/run/cbtest (with 4 in it)", "/opt/cni/bin/cbtest"):
        assert what in shown
    assert "not saved: /opt/cni/bin/cbtest (2097152 bytes)" in shown
    for other in ("other0,", "192.0.2.0", "OTHER", "99-other"):
        assert other not in shown
    assert "cbtest0" in there[-1], "it was said before anything went"
    assert "CBTEST-MASQ" in there[-1]

    has = node.has()
    assert "cbtest" not in has.lower()
    assert "10.244.1.0" not in has
    for other in ("other0", "192.0.2.0/24", "OTHER"):
        assert other in has
    assert not (root / CONFIGURATION[1:]).exists()
    assert not (root / "run/cbtest").exists()

    archive = saved / "theirs-node-worker-1.tar"
    assert str(archive) in shown
    assert {path.name for path in saved.iterdir()} == {
        "theirs.yaml",
        "theirs-nodes.txt",
        archive.name,
    }
    assert {path.stat().st_mode & 0o777 for path in saved.iterdir()} == {0o600}
    with tarfile.open(archive) as opened:
        assert opened.getnames()[0] == CONFIGURATION[1:], "the configuration comes first"
    subprocess.run(["tar", "-xpf", str(archive), "-C", str(root)], check=True, timeout=10)
    assert (root / CONFIGURATION[1:]).read_text() == "theirs"
    assert (root / CONFIGURATION[1:]).stat().st_mode & 0o777 == 0o640
    assert (root / "run/cbtest/deep/state").read_text() == "state"
    listed = (saved / "theirs-nodes.txt").read_text().splitlines()
    assert listed[0] == "node worker-1:"
    assert {f"  {what}" for what in (*GOES, "/run/cbtest/deep/state")} <= set(listed)
    assert "  /opt/cni/bin/cbtest (not saved: 2097152 bytes)" in listed
    assert r"  /run/cbtest/not\udcfftext\u000a" in listed


@ROOT
@pytest.mark.usefixtures("root")
def test_what_the_node_had_before_is_not_listed(node: Any, about: Installation) -> None:
    removal.remember(node, about)
    had, sysctls = removal.before(node)
    found = Cleaning(node, about, ["10.244.0.0/16"], (), had, sysctls).look()
    assert found.summary() == []
    node.run(["sh", "-c", "ip link add cbtest1 type bridge"], timeout=10)
    assert Cleaning(node, about, (), (), had, sysctls).look().lines == ["device cbtest1"]


@ROOT
@pytest.mark.usefixtures("root")
def test_sysctls_that_somebody_changes_after_the_installation_stay(
    node: Any, about: Installation
) -> None:
    def put(**values: int) -> None:
        lines = [f"echo {value} > /proc/sys/net/ipv4/conf/all/{k}" for k, value in values.items()]
        node.run(["sh", "-ec", "\n".join(lines)], timeout=10)

    def value(name: str) -> str:
        path = f"/proc/sys/net/ipv4/conf/all/{name}"
        return str(node.run(["cat", path], timeout=10).stdout.strip())

    put(arp_ignore=0, rp_filter=0, send_redirects=1)
    removal.remember(node, about)
    put(arp_ignore=1, rp_filter=2)  # the CNI
    early = Cleaning(node, about, (), (), *removal.before(node)).look().lines
    assert "sysctl net.ipv4.conf.all.rp_filter, which gets 0 again" in early
    removal.remember_settings(node)
    put(arp_ignore=2, send_redirects=0)  # somebody
    cleaning = Cleaning(node, about, (), (), *removal.before(node))
    assert [line for line in cleaning.look().lines if "sysctl" in line] == [
        "sysctl net.ipv4.conf.all.arp_ignore, which keeps 2, set after the CNI was ready (before"
        " the CNI: 0)",
        "sysctl net.ipv4.conf.all.rp_filter, which gets 0 again",
        "sysctl net.ipv4.conf.all.send_redirects, which keeps 0, set after the CNI was ready"
        " (before the CNI: 1)",
    ]
    cleaning.clean()
    assert [value(name) for name in ("arp_ignore", "rp_filter", "send_redirects")] == [
        "2",
        "0",
        "0",
    ]


@pytest.mark.usefixtures("empty_api")
def test_nothing_goes_when_the_nodes_cannot_be_looked_at(
    about: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise ClusterError("the connection was lost")

    def never(*_: Any) -> None:
        raise AssertionError("it went on")

    monkeypatch.setattr(uninstallation.eviction, "evict", never)
    node: Any = SimpleNamespace(name="a", host=True, facts=SimpleNamespace(name="n"), run=fails)
    plan = Removal("theirs", about, Known({}, "", ()), {})
    access: Any = None
    with pytest.raises(ClusterError, match="connection was lost"):
        uninstall(access, None, {}, [node], plan=plan, saved=tmp_path / "saved")


@pytest.mark.usefixtures("empty_api")
@pytest.mark.parametrize("operator", [False, True])
def test_nodes_are_cleaned_while_namespaces_go_unless_programs_may_still_run_there(
    about: Installation, monkeypatch: pytest.MonkeyPatch, operator: bool
) -> None:
    """An operator's programs end with their namespace."""
    order: list[str] = []
    daemons = Thing(Kind("apps/v1", "DaemonSet", "daemonsets", True), "made", "agent", "1")
    found = Belongings([], [daemons] if operator else [])
    monkeypatch.setattr(uninstallation.selection, "find", lambda *_: found)
    monkeypatch.setattr(uninstallation.deletion, "delete", lambda *_: lambda: order.append("gone"))
    monkeypatch.setattr(uninstallation, "_clean_nodes", lambda *_: order.append("cleaned"))
    access: Any = None
    uninstall(access, None, {}, [], plan=Removal("theirs", about, Known({}, "", ()), {}))
    assert order == (["gone", "cleaned"] if operator else ["cleaned", "gone"])


@pytest.mark.usefixtures("empty_api")
def test_a_node_from_which_nothing_can_be_removed_is_said_to_keep_all(
    about: Installation, tmp_path: Path
) -> None:
    node: Any = Node(0)
    node.host = False
    plan = Removal("theirs", about, Known({}, "", ()), {})
    said: list[str] = []
    access: Any = None
    with pytest.raises(ClusterError, match="nothing can be removed from it"):
        uninstall(access, None, {}, [node], plan=plan, saved=tmp_path, say=said.append)
    assert said[-1].startswith(
        "removed from node worker-1: nothing, for node a: nothing can be removed"
    )


def test_a_state_that_is_lost_is_known_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "files", lambda *_, **__: {"text": None})
    node: Any = SimpleNamespace(facts=SimpleNamespace(name="n"))
    with pytest.raises(UntouchedError, match="no longer known"):
        removal.before(node)


def test_a_folder_that_goes_as_a_whole_is_one_line() -> None:
    found = Found(["device x"], ["/run/x", "/run/x/a", "/run/x/a/b", "/run/xy", "/run/kept/new"])
    assert found.summary() == ["device x", "/run/x (with 2 in it)", "/run/xy", "/run/kept/new"]


@pytest.mark.parametrize(("recorded", "said"), [(False, "whoever made it"), (True, "not there")])
def test_before_any_agent_runs_the_names_that_are_looked_for_are_shown(
    recorded: bool, said: str, about: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By ``run`` and by ``clean``, which change nothing on the cluster to show it."""
    note = Record("theirs", about, {}) if recorded else None
    plan = Removal("theirs", about, Known({}, "", ()), {}, note)
    monkeypatch.setattr("cnibench.clusters.kubernetes.install.planned", lambda *_: plan)
    monkeypatch.setattr("cnibench.clusters.kubernetes.install.preview", lambda *_: ["Namespace x"])
    monkeypatch.setattr("cnibench.clusters.existing.safeguards.subnets.variables", lambda *_: {})
    cluster = ExistingCluster(Options())
    cluster.__dict__.update(access=None, nodes=[], present=recognise.Found("", ""))
    objects, on_nodes = GuardedCluster._preview_removal(cluster)
    assert "Namespace x" in objects
    shown = cluster._shown(Leftover("theirs", lambda: None))
    for words in (on_nodes, shown.about):
        assert said in words
        assert "devices cbtest0, cbtest1" in words
        assert "iptables chains CBTEST-*" in words
        assert CONFIGURATION in words


def test_the_host_network_is_no_installation_whose_settings_are_written_down() -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("its node was asked")

    node: Any = SimpleNamespace(name="a", host=True, facts=SimpleNamespace(name="n"), run=never)
    install.settled(builtin()["host"], [node])
    with pytest.raises(AssertionError, match="was asked"):
        install.settled(builtin()["flannel"], [node])
