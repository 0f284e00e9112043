"""The lab between two machines: what is sent, which interpreter runs it, what is in the way, what
its options make of two machines.
"""

from __future__ import annotations

import inspect
import io
import platform
import sys
import tarfile
from pathlib import Path

import pytest

from cnibench.cli.options.cluster import between_machines
from cnibench.clusters.lab.builders.base import builders
from cnibench.clusters.lab.namespaces.nic_wire import Nic
from cnibench.clusters.lab.remote.program import Sides
from cnibench.clusters.ssh import restoring
from cnibench.clusters.ssh.inspection.report import Seen, seen
from cnibench.clusters.ssh.lab import payload, requirements
from cnibench.clusters.ssh.lab.payload import Interpreter, chosen, interpreters
from cnibench.errors import MissingError, UsageError
from cnibench.registry import provider
from cnibench.testbed.cluster import Options
from cnibench.testbed.cluster_options import ClusterOptions

GOLDEN = Path(__file__).parent.parent / "golden" / "ssh" / "inspect.txt"
CLUSTER = "ssh-lab://root@one,ssh://root@two?address=10.0.0.2"
HERE = (sys.version_info[0], sys.version_info[1])


def machine(**changes: str) -> Seen:
    return Seen({**seen(GOLDEN.read_text()).facts, **changes})


def test_lab_is_of_two_machines() -> None:
    assert between_machines("ssh://root@one,ssh://root@two") == (
        "ssh-lab://root@one,ssh://root@two"
    )
    for cluster in (None, "kind", "lab"):
        with pytest.raises(UsageError, match="--lab is for two machines"):
            between_machines(cluster)


def test_its_kind_of_cluster_knows_the_machines() -> None:
    kind = provider("clusters", CLUSTER)
    assert kind.kind == "ssh-lab"
    assert [str(one) for one in kind.addresses] == ["ssh://root@one", "ssh://root@two"]
    assert kind.addresses[1].measured == "10.0.0.2"
    assert kind(Options()).testbed == "lab"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (Options(ip=(6,)), "IPv4 alone"),
        (Options(wire_offload="all"), "this one is real"),
        (Options(wire_rate=1e9), "this one is real"),
        (Options(cluster=ClusterOptions(allow_install=True)), "does not accept --allow-install"),
        (Options(keep=True), "does not accept --keep"),
    ],
)
def test_options_that_it_cannot_have(options: Options, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        provider("clusters", CLUSTER)(options)


def test_devices_on_the_nics_are_asked_for_first() -> None:
    for allowed in (False, True):
        given = Options(cluster=ClusterOptions(allow_node_changes=allowed))
        cluster = provider("clusters", CLUSTER)(given)
        for one in cluster.machines:
            one.seen = machine()
        if allowed:
            assert "macvlan device" in " ".join(cluster.preview({}, 1.0, 1.0))
        else:
            with pytest.raises(UsageError, match="macvlan devices would be made on eth0"):
                cluster.preview({}, 1.0, 1.0)


def test_interpreters_as_a_machine_reports_them() -> None:
    said = (
        "python=/usr/bin/python3 3.13 x86_64 -\n"
        "python=/opt/cnibench/bin/python 3.12 aarch64 /opt/cnibench/lib\nkind=veth\n"
    )
    assert interpreters(said) == [
        Interpreter("/usr/bin/python3", (3, 13), "x86_64", ""),
        Interpreter("/opt/cnibench/bin/python", (3, 12), "aarch64", "/opt/cnibench/lib"),
    ]


def test_which_interpreter_runs_what_is_sent() -> None:
    same = Interpreter("/same", HERE, platform.machine(), "")
    own = Interpreter("/own", (3, 12), "any", "/lib")
    old = Interpreter("/old", (3, 9), platform.machine(), "/lib")
    other = Interpreter("/other", (HERE[0], HERE[1] + 1), platform.machine(), "")
    foreign = Interpreter("/foreign", HERE, "riscv64", "")
    assert chosen([other, same]) is same
    assert chosen([same, own]) is own
    for found in ([], [old], [other], [foreign]):
        with pytest.raises(MissingError, match=f"the lab needs Python {HERE[0]}.{HERE[1]}"):
            chosen(found)


@pytest.mark.parametrize("libraries", [False, True])
def test_what_is_sent(libraries: bool) -> None:
    """The size in front, everything that the program there imports, and no more of cnibench than
    that machine needs.
    """
    data = payload.archive(libraries)
    assert int(data[:8]) == len(data) - 8
    with tarfile.open(fileobj=io.BytesIO(data[8:])) as archive:
        names = set(archive.getnames())
        assert all(member.isreg() for member in archive)
    assert {"remote/program.py", "namespaces/tree.py", "datapaths/flannel/backends.py"} <= {
        name.removeprefix("cnibench/clusters/lab/") for name in names
    }
    assert not any(name.startswith(("cnibench/cli/", "cnibench/reports/")) for name in names)
    assert ("pydantic/main.py" in names) == libraries
    assert any(name.startswith("pydantic_core/") and name.endswith(".so") for name in names) == (
        libraries
    )


def test_a_machine_of_others_is_no_obstacle_and_a_run_is() -> None:
    """The lab touches neither containers nor nodes."""
    busy = machine(containers="conmon", node="/etc/kubernetes/kubelet.conf", swap="/dev/sda2")
    assert list(requirements.problems("ssh://a", busy)) == []
    (used,) = requirements.problems("ssh://a", machine(journal="yes", used="yes", run="r"))
    assert "uses it" in used.lacks
    (left,) = requirements.problems("ssh://a", machine(journal="yes", run="r", owner="me"))
    assert "was not put back" in left.lacks
    (lost,) = requirements.problems("ssh://a", machine(device=""))
    assert "no network device there" in lost.lacks


def test_a_nic_that_cannot_be_the_wire() -> None:
    one = machine(mtu="1450")
    (small,) = requirements.of_nic("ssh://a", "eth0", one, Seen({}), 1500)
    assert small.lacks == "ssh://a: the MTU of eth0 is 1450, and 1500 was asked for"
    (port,) = requirements.of_nic("ssh://a", "eth0", one, Seen({"bridged": "br0"}), 1450)
    assert "is a port of the bridge br0" in port.lacks


@pytest.mark.parametrize(
    ("drivers", "kinds", "wire"),
    [
        (("mlx5_core", "ixgbe"), ("", ""), "nic"),
        (("mlx5_core", "virtio_net"), ("", ""), "virtio"),
        (("", ""), ("veth", "veth"), "veth"),
        (("", "ixgbe"), ("bond", ""), "nic"),
    ],
)
def test_what_joins_the_machines(
    drivers: tuple[str, str], kinds: tuple[str, str], wire: str
) -> None:
    assert requirements.wire(drivers, kinds) == wire


def test_mac_addresses_differ_between_runs_deployments_nodes_and_references() -> None:
    found = [
        Nic("eth0", run).mac(number, node, reference)
        for run in ("000001", "a1b2c3")
        for number in (1, 2, 127)
        for node in (0, 1)
        for reference in (False, True)
    ]
    assert len(set(found)) == len(found)
    assert all(int(mac[:2], 16) & 3 == 2 for mac in found)  # unicast, locally administered


def test_models_that_draw_at_random_or_run_daemons_stay_within_one_machine() -> None:
    between = {name for name, one in builders().items() if one.between_machines}
    assert between == {"bridge", "calico", "flannel", "flannel-ipip", "host", "veth"}
    assert not any(builders()[name].programs for name in between)


def test_a_listing_is_asked_for_again_while_something_goes() -> None:
    before = ["device eth0 mtu 1500", "sysctl a = 1", "sysctl b = 2"]
    looks = iter([[*before, "device m0 mtu 1500"], before])
    found = restoring.compared(before, lambda: next(looks), 60.0)
    assert found.same
    assert found.compared == {"device": 1, "sysctl": 2}
    left = restoring.compared(before, lambda: [*before[:2], "device m0 mtu 1500"], 0.0)
    assert (left.gone, left.new) == (("sysctl b = 2",), ("device m0 mtu 1500",))
    assert not left.same
    loaded = restoring.compared(before, lambda: [*before, "module macvlan"], 0.0)
    assert loaded.same
    assert "macvlan" in loaded.words()


def test_no_request_has_an_argument_that_a_conversation_has_itself() -> None:
    """``number`` is that of the request: an argument of that name would be lost."""
    requests = inspect.getmembers(Sides, inspect.isfunction)
    taken = {name: set(inspect.signature(one).parameters) for name, one in requests}
    assert "make" in taken
    assert not [name for name, given in taken.items() if given & {"number", "do"}]
