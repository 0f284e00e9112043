"""What is installed on a bare machine, and what of somebody else's it leaves as it is: the real
scripts and the real apt-get on real namespaces, with packages of the tests and a stand-in for
systemctl.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from cnibench.clusters.ssh.inspection.report import seen
from cnibench.clusters.ssh.restoring import Comparison, comparison
from tests.lab._bare_machine import BareMachine, D, bare_machine

FOLDERS = (
    "/etc/apt/apt.conf.d /etc/apt/preferences.d /etc/apt/sources.list.d /etc/apt/trusted.gpg.d"
    " /etc/systemd/system/multi-user.target.wants /var/lib/apt /var/log/apt /var/lib/dpkg/info"
    " /var/lib/dpkg/updates /var/lib/dpkg/triggers /opt/cni/bin /tmp/repository /run/netns"
    " /var/cache/apt/archives/partial"
)
# A package, $1, of the machine's package source. $2: what it needs. $3: its settings.
PACKAGE = """
set -e
mkdir -p /tmp/packages/$1/DEBIAN
printf 'Package: %s\\nVersion: 1\\nArchitecture: all\\nMaintainer: x <x@example.org>\\nDescription: x\\n' $1 \
  >/tmp/packages/$1/DEBIAN/control
[ -z "$2" ] || echo "Depends: $2" >>/tmp/packages/$1/DEBIAN/control
if [ -n "$3" ]; then
  mkdir -p /tmp/packages/$1/etc; echo "$3" >/tmp/packages/$1/etc/$1.conf; echo /etc/$1.conf >/tmp/packages/$1/DEBIAN/conffiles
fi
cd /tmp/repository
dpkg-deb -b /tmp/packages/$1 $1.deb
for deb in *.deb; do
  dpkg-deb -f $deb
  printf 'Filename: ./%s\\nSize: %s\\nSHA256: %s\\n\\n' $deb $(stat -c %s $deb) $(sha256sum <$deb | cut -d' ' -f1)
done >Packages
"""  # noqa: E501
STAND_INS = {
    "systemctl": 'case $1 in l*) exec /usr/bin/systemctl "$@" ;; esac; echo "$*" >>/tmp/systemctl',
    "ctr": "exit 0",
    "containerd": "exit 0",
    "modprobe": "exit 1",
}


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[BareMachine]:
    """That has a package source, and a folder for CNI plugins."""
    with bare_machine(tmp_path) as made:
        made.on(f"mkdir -p {FOLDERS}; : >/var/lib/dpkg/status; : >/tmp/systemctl")
        made.on("echo 'deb [trusted=yes] file:/tmp/repository ./' >/etc/apt/sources.list")
        yield made


def change(machine: BareMachine, folder: str, command: str) -> None:
    """What only this machine sees in a folder that it shares with its host."""
    layers = f"lowerdir={folder},upperdir=/tmp/upper,workdir=/tmp/work"
    machine.on(f"mkdir /tmp/upper /tmp/work; mount -t overlay -o {layers} overlay {folder}")
    machine.on(f"cd {folder} && {command}")


def offer(machine: BareMachine, name: str, needs: str = "", settings: str = "") -> None:
    machine.on(f"set -- {name} '{needs}' '{settings}'\n{PACKAGE}")


def begin(machine: BareMachine) -> None:
    machine.script("begin", "somebody", "run-1", "machines")
    machine.on(f"mkdir {D}/bin {D}/cni; : >{D}/containerd.toml; echo ours >{D}/kubelet.service")
    machine.on(f"echo ours >{D}/cnibench-containerd.service")
    for name, text in STAND_INS.items():
        path = f"{D}/bin/{name}"
        machine.on(f"printf '#!/bin/sh\\n%s\\n' '{text}' >{path}; chmod +x {path}")
    machine.on(f"for name in loopback bridge; do echo ours >{D}/cni/$name; done")


def refused(machine: BareMachine, packages: str = "") -> str:
    done = machine.script("install", packages, check=False)
    assert done.returncode == 1
    return done.stderr


def put_back(machine: BareMachine) -> Comparison:
    return comparison(machine.script("putback", "run-1", check=False).stdout)


def test_what_a_bring_up_would_harm_is_reported(machine: BareMachine) -> None:
    """Files that kubeadm reset deletes, units, networks; a run of the lab."""
    machine.on(
        "mkdir -p /etc/kubernetes/pki /etc/kubernetes/tmp; touch /etc/kubernetes/pki/ca.key"
        " /etc/kubernetes/tmp/backup /etc/systemd/system/kubelet.service;"
        " ip route add 10.96.7.0/24 via 192.0.2.9"
    )
    found = seen(machine.script("inspect", "192.0.2.1", "6443").stdout)
    assert (found["address"], found["device"]) == ("192.0.2.1", "eth0")
    assert found["node"] == "/etc/kubernetes/pki/ca.key"
    assert found["kubelet_unit"] == "/etc/systemd/system/kubelet.service"
    assert {"10.96.7.0/24", "192.0.2.0/24", "192.0.2.1/24", "192.0.2.9"} <= set(
        found.words("networks")
    )
    assert found["boot"].split()[1].startswith("mnt:[")
    assert found["lab"] == ""
    mark = "import socket, time; a = socket.socket(1); a.bind('\\0cnibench-lab'); time.sleep(60)"
    machine.background(f'exec python3 -c "{mark}"')
    machine.on("until grep -q cnibench-lab /proc/net/unix; do sleep 0.1; done")
    assert seen(machine.script("inspect", "", "6443").stdout)["lab"] == "yes"


@pytest.mark.parametrize(("packages", "ends"), [("kubeadm", False), ("kubeadm containerd", True)])
def test_only_a_containerd_of_ours_is_ended(
    packages: str, ends: bool, machine: BareMachine
) -> None:
    """Docker, which may be idle on the machine, needs the other."""
    for name in ("kubeadm", "containerd"):
        offer(machine, name)
    change(machine, "/usr/bin", "rm -f containerd")
    begin(machine)
    machine.script("install", packages)
    assert ("disable --now containerd\n" in machine.shows("cat /tmp/systemctl")) is ends
    found = put_back(machine)
    assert found.same, found.words()


def test_plugins_of_others_stay_as_they_are(machine: BareMachine) -> None:
    machine.on("echo theirs >/opt/cni/bin/bridge")
    change(machine, "/usr/lib", "mkdir -p cni; echo x >cni/loopback; echo x >cni/bridge")
    begin(machine)
    machine.on(f"rm {D}/cni/*")
    machine.script("install", "")
    assert machine.shows("cat /opt/cni/bin/loopback /opt/cni/bin/bridge") == "x\ntheirs\n"
    found = put_back(machine)
    assert found.same, found.words()


def test_a_unit_of_somebody_else_is_not_overwritten(machine: BareMachine) -> None:
    machine.on("echo theirs >/etc/systemd/system/kubelet.service")
    begin(machine)
    machine.on(f"cp {D}/bin/containerd {D}/bin/kubelet")
    assert "there is a /etc/systemd/system/kubelet.service: move it away" in refused(machine)
    assert put_back(machine).same
    assert machine.shows("cat /etc/systemd/system/kubelet.service") == "theirs\n"


def test_what_a_package_would_overwrite_is_named(machine: BareMachine) -> None:
    offer(machine, "kubernetes-cni")
    machine.on("echo theirs >/opt/cni/bin/bridge")
    begin(machine)
    assert "would overwrite /opt/cni/bin/bridge" in refused(machine, "kubernetes-cni")
    assert put_back(machine).same


def test_settings_of_a_package_that_was_removed_earlier_stay(machine: BareMachine) -> None:
    offer(machine, "kubeadm", settings="shipped")
    machine.on(
        "apt-get -q update && apt-get -qy install kubeadm && echo theirs >/etc/kubeadm.conf &&"
        " apt-get -qy remove kubeadm"
    )
    begin(machine)
    machine.script("install", "kubeadm")
    found = put_back(machine)
    assert found.same, found.words()
    assert machine.shows("cat /etc/kubeadm.conf") == "theirs\n"


def test_a_package_that_came_meanwhile_is_not_taken_along(machine: BareMachine) -> None:
    offer(machine, "kubeadm")
    offer(machine, "theirs", needs="kubeadm")
    begin(machine)
    machine.script("install", "kubeadm")
    machine.on("apt-get -q update && apt-get -qy install theirs")
    found = put_back(machine)
    assert "theirs came meanwhile and needs packages of the run" in found.failed[0]
    assert machine.shows("dpkg-query -W -f='${db:Status-Status}' theirs") == "installed"
    machine.on("apt-get -qy purge theirs")
    found = put_back(machine)
    assert found.same, found.words()
