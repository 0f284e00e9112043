"""What a run claims on a bare machine for a CNI, and what is said of what others have there."""

from __future__ import annotations

import pytest

from cnibench.clusters.ssh.claims import declared, taken_over
from cnibench.clusters.ssh.restoring import comparison
from cnibench.model.profile import builtin

COUNTED = "compared f 3\ncompared sysctl 2\n"


def test_devices_are_claimed_by_their_exact_names() -> None:
    lines = declared(builtin()["flannel"], (4, 6))
    assert {"device flannel.1", "device cni0", "chain FLANNEL-FWD", "subnet 10.244."} <= set(lines)
    assert "subnet fd00:10:244:" in lines
    assert "file /etc/cni/net.d/10-flannel.conflist" in lines
    for profile in builtin().values():
        devices = [line for line in declared(profile, (4,)) if line.startswith("device ")]
        assert not [line for line in devices if "*" in line], profile.name
    assert "device cilium_host" in declared(builtin()["cilium"], (4,))
    assert "device vxlan.calico" in declared(builtin()["calico-wp-vxlan"], (4,))
    assert "table 2004" in declared(builtin()["cilium"], (4,))


def test_nothing_is_claimed_for_what_installs_nothing() -> None:
    assert declared(builtin()["host"], (4,)) == []


def test_a_line_is_one_line() -> None:
    for profile in builtin().values():
        for line in declared(profile, (4, 6)):
            assert "\n" not in line
            assert len(line.split(" ", 1)) == 2


def test_what_would_be_taken_over_is_named() -> None:
    error = taken_over("ssh://one", "flannel", "device cni0\ndevice flannel.1\n")
    assert error.message == ("ssh://one has devices that flannel would take over: cni0, flannel.1")


def test_a_device_of_others_is_named_with_its_command_and_once() -> None:
    found = comparison(
        "+ address cali0 10.1.0.1/24\n+ device cali0 mtu 1500 02:00:00:00:00:01 \n"
        "+ route -4 10.1.0.0/24 dev cali0 proto kernel scope link src 10.1.0.1\n"
        "+ sysctl net.ipv4.conf.cali0.rp_filter = 0\n"
        "+ sysctl net.ipv4.neigh.cali0.app_solicit = 0\n" + COUNTED
    )
    assert not found.same
    assert found.words() == (
        "not as it was before: device cali0 mtu 1500 02:00:00:00:00:01"
        " (new; ip link delete cali0 removes it)"
    )


def test_a_setting_that_somebody_changed_is_named_with_both_values() -> None:
    found = comparison(
        "- sysctl net.ipv4.tcp_rmem = 4096 131072 6291456\n"
        "+ sysctl net.ipv4.tcp_rmem = 4096 131072 8388608\n- sysctl vm.swappiness = 1\n" + COUNTED
    )
    assert found.words() == (
        "not as it was before: sysctl net.ipv4.tcp_rmem = 4096 131072 8388608, was 4096 131072"
        " 6291456 (sysctl -w 'net.ipv4.tcp_rmem=4096 131072 6291456' sets it back);"
        " sysctl vm.swappiness = 1 (gone)"
    )


def test_modules_and_their_idle_devices_are_no_difference() -> None:
    found = comparison(
        "+ module vxlan\n+ module ipip\n+ device tunl0 mtu 1480 0.0.0.0 \n"
        "+ sysctl net.ipv4.conf.tunl0.forwarding = 0\n" + COUNTED
    )
    assert found.same
    assert found.words() == (
        "as it was before, no difference in 3 files, 2 sysctls; modules that were loaded on demand"
        " stay: vxlan, ipip (modprobe -r vxlan ipip removes those that nothing uses)"
    )


def test_a_device_of_a_module_that_has_an_address_is_somebodys() -> None:
    found = comparison(
        "+ module ipip\n+ device tunl0 mtu 1480 0.0.0.0 \n+ address tunl0 10.9.0.1/32\n" + COUNTED
    )
    assert not found.same
    assert "device tunl0 mtu 1480 0.0.0.0 (new" in found.words()


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("address eth0 10.9.0.1/24", "ip address delete 10.9.0.1/24 dev eth0"),
        ("ipset mine", "ipset destroy mine"),
        ("netfilter nft inet mine table inet mine {", "nft delete table inet mine"),
        ("route -4 10.9.0.0/24 via 10.0.0.2 dev eth0", "ip -4 route delete 10.9.0.0/24 via"),
        ("cgroup /sys/fs/cgroup/kubepods-mine", "rmdir /sys/fs/cgroup/kubepods-mine"),
    ],
)
def test_the_command_that_removes_what_stays(line: str, command: str) -> None:
    assert f"(new; {command}" in comparison(f"+ {line}\n{COUNTED}").words()


@pytest.mark.parametrize(
    "line", ["f /etc/mine", "package mine 1.0 ii ", "unit mine.service static"]
)
def test_a_file_a_package_and_a_unit_are_named_alone(line: str) -> None:
    assert f"{line.strip()} (new)" in comparison(f"+ {line}\n{COUNTED}").words()
