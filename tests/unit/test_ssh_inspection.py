"""What is in the way on a machine, by what it reports (a capture of a real one, changed)."""

from __future__ import annotations

from pathlib import Path

import pytest

from cnibench.clusters.ssh.inspection.comparison import (
    differences,
    firewalls,
    installed_differently,
    pair_problems,
)
from cnibench.clusters.ssh.inspection.obstacles import problems
from cnibench.clusters.ssh.inspection.packages import fits, packages
from cnibench.clusters.ssh.inspection.report import Seen, seen
from cnibench.clusters.ssh.sources import Source

GOLDEN = Path(__file__).parent.parent / "golden" / "ssh" / "inspect.txt"
PACKAGES = Source("v1.34")


class Whole(Source):
    """A folder that has everything."""

    has_kubernetes = has_runtime = has_plugins = True  # type: ignore[assignment]


FOLDER = Whole("v1.34.4", Path("/parts"), "x86_64")


def machine(**changes: str) -> Seen:
    return Seen({**seen(GOLDEN.read_text()).facts, **changes})


def said(one: Seen, source: Source = FOLDER, control_plane: bool = True) -> list[str]:
    found = list(problems("ssh://a", one, source, control_plane))
    assert all(problem.remedy for problem in found)
    return [problem.lacks.removeprefix("ssh://a: ") for problem in found]


def test_a_bare_machine_lacks_nothing() -> None:
    assert said(machine()) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"node": "/etc/kubernetes/kubelet.conf"}, "it is a node of a cluster already"),
        ({"containers": "conmon"}, "it runs containers of others (conmon)"),
        ({"network": "/etc/cni/net.d/10-flannel.conflist"}, "a CNI is configured there"),
        ({"ports_used": "6443 10250"}, "port 6443, 10250 is in use"),
        ({"swap": "/dev/sda2"}, "swap is on (/dev/sda2)"),
        ({"systemd": "no"}, "it does not run systemd"),
        ({"free_kib": "1048576"}, "1024 MiB are free below /var/lib; 4096 MiB are needed"),
        ({"free_kib": "0"}, "0 MiB are free below /var/lib"),
        ({"networks": "192.0.2.7/24 10.244.3.0/24"}, "it has to reach 10.244.3.0/24, and 10.244."),
        ({"networks": "10.96.3.9/8"}, "it has to reach 10.96.3.9/8, and 10.96.0.0/16 is"),
        ({"networks": "fd00:10:244::7"}, "it has to reach fd00:10:244::7, and fd00:10:244::/56"),
        ({"kubelet_unit": "/etc/systemd/system/kubelet.service"}, "it has a kubelet of its own"),
        ({"memory": "1048576"}, "1024 MiB of memory"),
        ({"cpus": "1"}, "1 CPU; a control plane needs 2"),
        ({"device": ""}, "no network device there has the address 10.89.0.2"),
        ({"architecture": "aarch64"}, "it is aarch64, and the programs of /parts are for x86_64"),
        ({"tools": "apt-get systemctl"}, "not installed: awk, find, flock"),
        ({"journal": "yes", "run": "r", "owner": "o", "node": "x"}, "the run r of o was not put"),
        ({"lab": "yes"}, "another run of cnibench's lab uses"),
        ({"journal": "yes", "used": "yes", "run": "r", "owner": "o"}, "the run r of o uses it"),
    ],
)
def test_what_is_in_the_way_is_named(changes: dict[str, str], expected: str) -> None:
    (found,) = said(machine(**changes))
    assert found.startswith(expected)


def test_networks_that_contain_those_of_pods_are_no_problem() -> None:
    assert said(machine(networks="10.0.0.5/8 10.0.0.0/8 10.244.0.0/14 fe80::1%eth0 x")) == []


def test_packages_take_the_kubelet_that_is_there() -> None:
    there = machine(kubelet_unit="/usr/lib/systemd/system/kubelet.service", apt_kubeadm="1.34.4-1")
    assert said(there, PACKAGES) == []


def test_all_is_named_at_once() -> None:
    assert len(said(machine(swap="/swap", ports_used="6443", free_kib="1"))) == 3


def test_cgroup_v1_is_refused_from_1_35_on() -> None:
    assert said(machine(cgroup="tmpfs")) == []
    newer = Whole("v1.35.1", Path("/parts"), "x86_64")
    assert "cgroup v1" in said(machine(cgroup="tmpfs"), newer)[0]
    assert said(machine(cgroup="cgroup2fs"), newer) == []


def test_a_second_machine_needs_one_cpu() -> None:
    assert said(machine(cpus="1"), control_plane=False) == []


def test_which_packages_are_installed() -> None:
    there = machine(apt_kubeadm="1.33.7-1.1 1.34.4-1.1 1.34.10-1.1 1.35.0-1.1")
    assert packages(there, PACKAGES) == ["containerd", "kubeadm=1.34.10-1.1", "kubelet=1.34.10-1.1"]
    assert packages(there, Source("v1.34.4"))[1:] == ["kubeadm=1.34.4-1.1", "kubelet=1.34.4-1.1"]
    assert packages(there, FOLDER) == []
    with_runtime = machine(tools=f"{machine()['tools']} containerd ctr runc")
    assert packages(with_runtime, PACKAGES)[0] == "kubeadm="


def test_what_the_package_sources_lack_is_named() -> None:
    assert "its package sources have no kubeadm v1.34" in said(machine(), PACKAGES)
    (found,) = said(machine(tools=machine()["tools"].replace("apt-get ", "")), PACKAGES)
    assert "it has no apt-get" in found


@pytest.mark.parametrize(
    ("package", "wanted", "expected"),
    [
        ("1.34.4-1.1", "v1.34", True),
        ("1.34.4-1.1", "v1.34.4", True),
        ("1.34.40-1.1", "v1.34.4", False),
        ("1:1.34.4-0", "v1.34", True),
        ("1.3.4-1", "v1.34", False),
    ],
)
def test_versions_of_packages(package: str, wanted: str, expected: bool) -> None:
    assert fits(package, wanted) is expected


def test_a_pair() -> None:
    one, two = machine(), machine(address="10.89.0.3", boot="other")
    assert list(pair_problems(("a", "b"), one, two)) == []
    assert differences(one, two) == []
    for changes, expected in (
        ({"architecture": "aarch64"}, "different architectures"),
        ({"time": "100"}, "clocks"),
        ({"address": "fd00::2"}, "IPv4 and IPv6"),
        ({"boot": one["boot"]}, "same machine"),
        ({"address": one["address"]}, "same address 10.89.0.2"),
    ):
        (found,) = pair_problems(("a", "b"), one, Seen({**two.facts, **changes}))
        assert expected in found.lacks
    assert differences(one, Seen({**two.facts, "os": "ubuntu 24.04"})) == [
        "distribution differs: a: debian 12, b: ubuntu 24.04"
    ]


def test_machines_of_two_distributions() -> None:
    """Each gets what its own package sources have, which is told; remedies name its own tools."""
    one = machine(apt_kubeadm="1.34.4-1.1")
    two = machine(os="ubuntu 24.04", apt_kubeadm="1.34.2-1.1 1.34.4-1.1")
    assert installed_differently(one, two, PACKAGES) == []
    older = machine(os="ubuntu 22.04", apt_kubeadm="1.34.2-1.1")
    (found,) = installed_differently(one, older, PACKAGES)
    assert "a: containerd kubeadm=1.34.4-1.1" in found
    assert "b: containerd kubeadm=1.34.2-1.1" in found
    assert installed_differently(one, older, FOLDER) == []
    tools = machine()["tools"].replace("flock ", "")
    for given, remedy in (
        (tools, "apt-get install util-linux"),
        (tools.replace("apt-get ", "rpm "), "install them; in Debian they are in util-linux"),
    ):
        (lacking,) = problems("ssh://a", machine(os="x", tools=given), FOLDER, True)
        assert lacking.remedy == remedy


def test_an_active_firewall_is_named() -> None:
    assert firewalls(machine(), machine(firewall="")) == []
    (said,) = firewalls(machine(address="192.0.2.1"), machine(firewall="firewalld ufw"))
    assert said.startswith("b: a firewall is active (firewalld, ufw), its rules were not read:")
    assert "all traffic from 192.0.2.1" in said
