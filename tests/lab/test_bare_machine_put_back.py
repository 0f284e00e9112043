"""What a run made on a bare machine is removed from it, and nothing that somebody else has there:
the real scripts on real namespaces, with a stand-in for kubeadm.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from cnibench.clusters.ssh.machine import script
from cnibench.clusters.ssh.restoring import Comparison, comparison
from tests.lab._bare_machine import BareMachine, D, bare_machine

FLANNEL = (
    "device cni0\ndevice flannel.1\ndevice tunl0\nchain FLANNEL-*\nchain CNI-DN-*\nsubnet 10.244."
)
CILIUM = (
    "device cilium_host\nchain CILIUM_*\nrule cilium-feeder\nipset cilium_node_set_*\n"
    "table 2004\nnft_table cilium\nsubnet 10.244.\nfile /run/cilium"
)
# What a kubelet and kube-proxy make, as far as it matters here.
KUBEADM = """#!/bin/sh
[ "$1" = reset ] && exit 0
sysctl -q -w net.ipv4.ip_forward=1
for tool in iptables-nft iptables-legacy; do
  for chain in KUBE-FORWARD KUBE-FIREWALL KUBE-SVC-ABCDEFGHIJKLMNOP; do $tool -N $chain; done
  $tool -A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
  $tool -A INPUT -j KUBE-FIREWALL
  $tool -A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
  $tool -A KUBE-FORWARD -j KUBE-SVC-ABCDEFGHIJKLMNOP
done
mkdir -p /sys/fs/cgroup/kubepods.slice/pod1
(
  echo 0 >/sys/fs/cgroup/kubepods.slice/pod1/cgroup.procs
  exec unshare --net sleep 1001 >/dev/null 2>&1 7>&-
) &
sleep 0.5
mkdir -p /run/netns; : >/run/netns/cni-0f0f
mount --bind "/proc/$!/ns/net" /run/netns/cni-0f0f
"""


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[BareMachine]:
    """That has a folder for network namespaces."""
    with bare_machine(tmp_path) as made:
        made.on("mkdir /run/netns")
        yield made


def bring_up(machine: BareMachine) -> None:
    machine.script("begin", "somebody", "run-1", "machines")
    machine.on(f"mkdir -p {D}/bin; cat >{D}/bin/kubeadm <<'END'\n{KUBEADM}END\nchmod +x {D}/bin/*")
    machine.on(f"echo 'sysctl net.ipv4.ip_forward=1' >>{D}/journal")
    machine.script("kubeadm", "init")


def put_back(machine: BareMachine) -> Comparison:
    done = machine.script("putback", "run-1", check=False)
    assert done.returncode in (0, 4), done.stderr
    return comparison(done.stdout)


def test_what_the_run_made_goes(machine: BareMachine) -> None:
    bring_up(machine)
    machine.script("cni", "begin", "flannel", FLANNEL)
    machine.on(
        "ip link add cni0 type bridge; ip link set cni0 up;"
        " ip link add flannel.1 type vxlan id 1 dstport 8472 dev eth0;"
        " ip route add 10.244.1.0/24 via 192.0.2.2; iptables-nft -N FLANNEL-FWD;"
        " iptables-nft -A FORWARD -j FLANNEL-FWD; sysctl -q -w net.ipv4.conf.all.rp_filter=2"
    )
    machine.script("cni", "ready", "flannel")
    found = put_back(machine)
    assert found.same, found.words()
    assert machine.shows("ps ax -o args | grep '^sleep 100[1]' || true") == ""
    assert machine.shows(f"ls -d {D} 2>/dev/null || true") == ""


def test_what_another_run_made_stays(machine: BareMachine) -> None:
    bring_up(machine)
    done = machine.script("putback", "run-2", check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "the run run-1 has changed it, and not run-2" in done.stderr
    assert machine.shows("ps ax -o args | grep '^sleep 100[1]'") != ""
    assert put_back(machine).same


def test_a_run_that_says_nothing_holds_no_machine(machine: BareMachine) -> None:
    """Its own machine may be off: no end of the connection ever arrives."""
    use = f"sh -c {shlex.quote(script('use'))} cnibench 1"
    free, held = f"flock -n {D}/use true", f"test -e {D}/use && ! flock -n {D}/use true"
    machine.background(f"(for _ in $(seq 12); do echo on; sleep 0.3; done; sleep 1001) | {use}")
    machine.on(f"until {held}; do sleep 0.1; done; sleep 1.5; {held}")
    machine.on(f"until {free}; do sleep 0.1; done; pgrep -f 'sleep 100[1]'")


def test_the_journal_stays_when_the_disk_is_full(machine: BareMachine) -> None:
    machine.on("mount -t tmpfs -o size=20m none /var/lib")
    bring_up(machine)
    machine.on("cat /dev/zero >/var/lib/full", check=False)
    done = machine.script("putback", "run-1", check=False)
    assert (done.returncode, "are free on its disk" in done.stderr) == (1, True), done
    machine.on("rm /var/lib/full")
    found = put_back(machine)
    assert found.same, found.words()


def test_a_line_of_the_journal_that_was_cut_is_not_undone(machine: BareMachine) -> None:
    machine.on("mkdir -p /srv/theirs; echo x >/srv/theirs/file")
    bring_up(machine)
    machine.on(f"printf 'new /srv/theirs' >>{D}/journal")  # of /srv/theirs/of-the-run
    found = put_back(machine)
    assert found.same, found.words()


def test_a_machine_that_was_restarted_is_put_back_and_named(machine: BareMachine) -> None:
    """A container that is restarted keeps its boot ID: its process 1 is another one."""
    bring_up(machine)
    machine.on(f"sed -i 's/ [0-9]*$/ 1/' {D}/boot")
    found = put_back(machine)
    assert found.same, found.words()
    assert found.words().endswith("it was restarted in the meantime")


def test_images_make_room_on_a_full_disk(machine: BareMachine) -> None:
    machine.on("mount -t tmpfs -o size=20m none /var/lib")
    bring_up(machine)
    machine.on(f"mkdir {D}/containerd; cat /dev/zero >{D}/containerd/layer", check=False)
    found = put_back(machine)
    assert found.same, found.words()


def test_a_cni_that_was_killed_before_it_was_ready_goes(machine: BareMachine) -> None:
    bring_up(machine)
    machine.script("cni", "begin", "flannel", FLANNEL)
    machine.on("ip link add cni0 type bridge")
    found = put_back(machine)
    assert found.same, found.words()


def test_devices_of_others_stay_whatever_their_name(machine: BareMachine) -> None:
    machine.on("ip link add cni1 type bridge")  # before the run
    bring_up(machine)
    machine.script("cni", "begin", "flannel", FLANNEL)
    theirs = {"cali0", "vxlan.calico", "cilium_host", "lxc1", "kube-bridge", "weave", "antrea-gw0"}
    for name in theirs:
        machine.on(f"ip link add {name} type bridge")
    machine.on("ip link add flannel.1 type bridge")
    machine.script("cni", "ready", "flannel")
    machine.on("ip link delete flannel.1; ip link add flannel.1 type bridge")  # another one
    found = put_back(machine)
    assert machine.devices() == {"lo", "eth0", "wire", "cni1", "flannel.1", *theirs}
    assert found.failed == ()
    assert "cali0" in found.words()
    assert "ip link delete cali0" in found.words()


def test_a_device_made_after_the_cni_was_removed_stays(machine: BareMachine) -> None:
    bring_up(machine)
    machine.script("cni", "begin", "flannel", FLANNEL)
    machine.script("cni", "ready", "flannel")
    machine.script("cni", "end", "flannel")
    machine.on("ip link add cni0 type bridge")
    put_back(machine)
    assert "cni0" in machine.devices()


def test_a_cni_that_would_take_over_a_device_is_refused(machine: BareMachine) -> None:
    machine.on("ip link add cni0 type bridge")
    bring_up(machine)
    refused = machine.script("cni", "begin", "flannel", FLANNEL, check=False)
    assert (refused.returncode, refused.stderr.strip()) == (5, "device cni0")
    put_back(machine)
    assert "cni0" in machine.devices()


def test_namespaces_and_processes_of_others_stay(machine: BareMachine) -> None:
    machine.on("rmdir /run/netns")
    bring_up(machine)
    machine.on("ip netns add mine; ip netns add cni-mine")
    machine.on("mkdir -p /sys/fs/cgroup/mine/kubepods-mine /sys/fs/cgroup/kubepods-of-others")
    machine.background("echo 0 >/sys/fs/cgroup/mine/kubepods-mine/cgroup.procs; exec sleep 2001")
    machine.background("exec -a 'containerd-shim -address x' sleep 2002")
    put_back(machine)
    assert set(machine.shows("ip netns list").split()) >= {"mine", "cni-mine"}
    assert "cni-0f0f" not in machine.shows("ls /run/netns")
    machine.on("ip netns exec cni-mine true")
    assert machine.shows("pgrep -c '^sleep$'").strip() == "2"
    machine.on("test -d /sys/fs/cgroup/kubepods-of-others")


def test_settings_that_others_changed_stay(machine: BareMachine) -> None:
    machine.on("sysctl -q -w net.ipv4.conf.eth0.forwarding=1 net.ipv4.conf.all.accept_redirects=0")
    bring_up(machine)
    machine.script("cni", "begin", "flannel", FLANNEL)
    machine.on("sysctl -q -w net.ipv4.conf.all.rp_filter=2 net.ipv4.conf.default.rp_filter=2")
    machine.script("cni", "ready", "flannel")
    machine.on(
        "sysctl -q -w net.ipv4.conf.all.rp_filter=1 net.ipv4.tcp_retries2=9"
        " net.ipv4.conf.wire.forwarding=0 net.ipv4.conf.lo.rp_filter=1"
    )
    found = put_back(machine)
    shown = machine.shows(
        "sysctl net.ipv4.ip_forward net.ipv4.conf.all.rp_filter net.ipv4.conf.default.rp_filter"
        " net.ipv4.tcp_retries2 net.ipv4.conf.lo.rp_filter net.ipv4.conf.eth0.forwarding"
        " net.ipv4.conf.wire.forwarding net.ipv4.conf.all.accept_redirects"
    )
    assert [line.split(" = ")[1] for line in shown.splitlines()] == list("01091100")
    assert "sysctl net.ipv4.tcp_retries2 = 9" in found.words()
    assert "sysctl -w net.ipv4.tcp_retries2=" in found.words()


def test_a_setting_of_ours_that_somebody_changed_back_stays(machine: BareMachine) -> None:
    machine.on("sysctl -q -w net.ipv4.ip_forward=1 net.bridge.bridge-nf-call-iptables=0")
    bring_up(machine)
    machine.on("sysctl -q -w net.ipv4.ip_forward=0")
    put_back(machine)
    assert machine.shows("sysctl -n net.ipv4.ip_forward").strip() == "0"


def test_a_cilium_that_was_left_goes(machine: BareMachine) -> None:
    bring_up(machine)
    machine.script("cni", "begin", "cilium", CILIUM)
    machine.on(
        "ip link add cilium_host type veth peer name cilium_net; ipset create cilium_node_set_v4"
        " hash:ip; iptables-nft -N CILIUM_FORWARD; iptables-nft -A FORWARD -m comment --comment"
        " 'cilium-feeder: CILIUM_FORWARD' -j CILIUM_FORWARD; iptables-nft -A OUTPUT -m comment"
        " --comment 'cilium-feeder: x' -j ACCEPT; nft add table ip cilium;"
        " ip rule add pref 9 fwmark 0x200/0xf00 lookup 2004; ip rule add pref 100 lookup local;"
        " ip rule delete pref 0; ip route add blackhole 10.244.7.0/26; mkdir -p /run/cilium/state"
    )
    machine.script("cni", "ready", "cilium")
    machine.on("iptables-nft -A OUTPUT -m comment --comment 'go -j CILIUM_FORWARD' -j ACCEPT")
    found = put_back(machine)
    assert "go -j CILIUM_FORWARD" in machine.shows("iptables-nft -S OUTPUT")
    machine.on("nft delete table ip filter")
    assert not found.failed
    assert not found.gone
    assert [line for line in found.new if "nft ip filter" not in line] == []


def test_only_modules_that_we_loaded_are_unloaded(machine: BareMachine) -> None:
    """No kernel of the tests has modules: by what is said to a stand-in for rmmod."""
    bring_up(machine)
    loaded = ("br_netfilter 1 0", "overlay 1 3", "vxlan 1 0")  # name, size, users
    for module in loaded:
        machine.on(f"echo '{module} - Live 0' >>{D}/modules")
    machine.on(f"echo 'module br_netfilter' >>{D}/journal; echo 'module overlay' >>{D}/journal")
    machine.on(f"echo 'echo $1' >{D}/bin/rmmod; chmod +x {D}/bin/rmmod")
    text = script("putback").partition("# Undoes what")[0].replace("/proc/modules", f"{D}/modules")
    assert machine.shows(f"{text}\nunload; true").split() == ["br_netfilter"]


RULES = (
    "-N KUBE-MINE",
    "-N CNI-MINE",
    "-N cali-mine",
    "-N FLANNEL-MINE",
    "-A KUBE-MINE -s 203.0.113.1/32 -j DROP",
    "-A INPUT -s 203.0.113.2/32 -j KUBE-MINE",
    "-A OUTPUT -d 203.0.113.3/32 -j DROP",
    "-P FORWARD DROP",
)


@pytest.mark.parametrize("tool", ["iptables-nft", "iptables-legacy"])
def test_rules_of_others_stay(tool: str, machine: BareMachine) -> None:
    bring_up(machine)
    for rule in RULES:
        machine.on(f"{tool} {rule}")
    put_back(machine)
    shown = machine.shows(f"{tool} -S").splitlines()
    assert set(RULES) <= set(shown)
    assert not [line for line in shown if "KUBE-F" in line or "KUBE-SVC" in line]


def test_a_chain_that_was_there_before_stays_whatever_its_name(machine: BareMachine) -> None:
    """Although iptables, which could name it, came with the run."""
    machine.on("nft add table ip mangle; nft add chain ip mangle KUBE-KUBELET-CANARY")
    bring_up(machine)
    machine.on(f": >{D}/rules")  # as begin leaves it where iptables is not installed
    found = put_back(machine)
    assert found.gone == ()
    assert "KUBE-KUBELET-CANARY" in machine.shows("nft list table ip mangle")


@pytest.mark.parametrize("tool", ["iptables-nft", "iptables-legacy"])
def test_no_rule_is_lost_that_is_added_meanwhile(tool: str, machine: BareMachine) -> None:
    bring_up(machine)
    machine.on(f"for n in $(seq 300); do {tool} -w -N KUBE-SEP-$(printf %016d $n); done")
    # that of nftables starts again whenever somebody was faster, and has no lock
    pause = "sleep 0.02" if tool == "iptables-nft" else ":"
    machine.background(
        f"n=0; while :; do n=$((n + 1)); {tool} -w -A INPUT -s 203.0.113.1 -p tcp --dport $n"
        f" -j ACCEPT && echo $n >>/tmp/added; {pause}; done"
    )
    put_back(machine)
    machine.on("kill $(pgrep -f -- '--dport|while :') 2>/dev/null; sleep 0.5", check=False)
    added = machine.shows("cat /tmp/added").split()
    there = machine.shows(f"{tool} -S INPUT")
    assert len(added) > 20
    assert [port for port in added if f"--dport {port} " not in there] == []
    assert "KUBE-SEP" not in machine.shows(f"{tool} -S")


def test_tables_sets_and_policy_routing_of_others_stay(machine: BareMachine) -> None:
    bring_up(machine)
    machine.script("cni", "begin", "flannel", FLANNEL)
    machine.script("cni", "ready", "flannel")
    machine.script("cni", "end", "flannel")
    machine.on(
        "nft add table ip calico; nft add table ip kube-proxy; nft add table inet cni_mine;"
        " nft add table ip mangle; nft add chain ip mangle mine;"
        " ipset create cali40mine hash:ip; ipset create KUBE-MINE hash:ip;"
        " ip rule add pref 9 fwmark 0x200/0xf00 lookup 2004; ip rule add pref 1999 lookup 10;"
        " ip route add 198.51.100.0/24 via 192.0.2.9"
    )
    before = machine.shows("nft list tables; ip rule; ip route; ipset list -name")
    put_back(machine)
    after = machine.shows("nft list tables; ip rule; ip route; ipset list -name")
    gone = set(before.splitlines()) - set(after.splitlines())
    assert gone <= {"table ip filter"}, "iptables' own, which the run had made"
