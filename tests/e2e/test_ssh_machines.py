"""Two bare machines: to samples and back, after a kill, and with everything that is in the way."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from _kind_runs import (
    CNIBENCH,
    LIMIT,
    ONE_CELL,
    SHORT,
    cnibench,
    engine,
    lines,
    nothing_left,
    until,
)
from _machines import Machines
from kind.parts import Parts

from cnibench.clusters.ssh.address import parse
from cnibench.clusters.ssh.machine import Machine

pytestmark = pytest.mark.timeout(900)
JOIN_WAITS = 300.0  # s: kubeadm's limit for finding the other node
AS_BEFORE = re.compile(r"(ssh://\S+): as it was before, no difference in (\d+) files, .* sysctls")


def asked(machines: Machines, parts: Parts, cnis: str = "host,flannel") -> tuple[str | Path, ...]:
    """Of a run of real flannel, and of Pods on the nodes' own network before it."""
    return (
        *with_cnis(machines, cnis),
        *("--set", f"flannel:chart={parts.charts['flannel']}", "--image-archive", parts.flannel),
    )


def with_cnis(machines: Machines, cnis: str) -> tuple[str | Path, ...]:
    return (
        *("run", "--cluster", machines.cluster, "--kubernetes", machines.parts, "--allow-install"),
        *("--cni", cnis, "--method", "windows", *ONE_CELL, *SHORT),
    )


def somebody(machines: Machines, command: str) -> str:
    """A command in the first machine's network, with the programs of this one."""
    process = engine("podman", "inspect", "--format", "{{.State.Pid}}", machines.names[0]).strip()
    return engine("nsenter", "--net", "--target", process, *command.split())


def differences(before: list[str], after: list[str]) -> list[str]:
    return sorted(set(before) ^ set(after))


def test_to_samples_and_back(machines: Machines, kind_parts: Parts, tmp_path: Path) -> None:
    before = [machines.listing(which) for which in (0, 1)]
    said = cnibench(*asked(machines, kind_parts), cwd=tmp_path).stderr
    samples = lines(tmp_path, "samples")
    assert {one["label"] for one in samples if one["status"] == "ok"} == {"host", "flannel"}
    assert {one["testbed"] for one in samples} == {"cluster"}
    assert len({where for where, _ in AS_BEFORE.findall(said)}) == 2, said
    for which in (0, 1):
        assert differences(before[which], machines.listing(which)) == []


def test_a_machine_that_restarts_in_the_middle(machines: Machines, tmp_path: Path) -> None:
    """The node comes back with its machine: the run names it, measures the later blocks, and puts
    both machines back.
    """
    before = [machines.listing(which) for which in (0, 1)]
    words = with_cnis(machines, "host")
    more = ("--blocks", "3", "--duration", "20s")
    with (tmp_path / "log").open("w") as stderr:
        run = subprocess.Popen([CNIBENCH, *map(str, words), *more], stderr=stderr, cwd=tmp_path)
    try:
        until(lambda: run.poll() is not None or "[1/3]" in (tmp_path / "log").read_text(), LIMIT)
        assert run.poll() is None, (tmp_path / "log").read_text()
        until(lambda: "netserver" in machines.on(1, "ps -eo comm"), LIMIT)
        machines.restart(1)
        status = run.wait(LIMIT)
    finally:
        run.kill()
    said = " ".join((tmp_path / "log").read_text().split())
    assert status == 1, said
    assert re.search(r"connected again after \d+ s; the machine was restarted", said)
    ended = {
        one["block"]: (one["status"], one["reason"])
        for one in lines(tmp_path, "samples")
        if one["metric"] == "transaction_rate" or one["status"] != "ok"
    }
    assert [ended[0][0], ended[1][0], ended[2][0]] == ["ok", "failed", "ok"], said
    assert "is the Pod still there?" in ended[1][1]
    assert [where for where, _ in AS_BEFORE.findall(said)] == [
        f"ssh://root@{machines.addresses[0]}"
    ]
    assert "it was restarted in the meantime" in said
    for which in (0, 1):
        found = differences(before[which], machines.listing(which))
        # A restarted container has another device, /etc/hosts and machine ID.
        own = r"eth0|.* dev eth0 |/etc/hosts|/run/log/journal/"
        assert [one for one in found if not re.match(own, one)] == []


def test_after_a_kill(machines: Machines, tmp_path: Path) -> None:
    before = [machines.listing(which) for which in (0, 1)]
    log = tmp_path / "log"
    with log.open("w") as stderr:
        run = subprocess.Popen(
            [CNIBENCH, *map(str, with_cnis(machines, "host"))], stderr=stderr, cwd=tmp_path
        )
    clean = ("clean", "--cluster", machines.cluster)
    try:
        until(lambda: "kubeadm join" in log.read_text(), LIMIT)
        assert "left: " in cnibench(*clean, cwd=tmp_path).stdout  # a live run's is never removed
        refused = cnibench("doctor", "--cluster", machines.cluster, cwd=tmp_path, status=3)
        assert "uses it" in refused.stdout.replace("\n", " ")
    finally:
        run.send_signal(signal.SIGKILL)
        run.wait()
    until(lambda: "would remove: what" in cnibench(*clean, "--dry-run", cwd=tmp_path).stdout)
    somebody(machines, "ip link add vethmine type veth peer name vethpeer")
    somebody(machines, "ipset create mine hash:ip")
    somebody(machines, "nft add table ip mine")
    somebody(machines, "ip link add cali0 type bridge")
    somebody(machines, "iptables -A INPUT -s 203.0.113.1 -j DROP")
    somebody(machines, "sysctl -q -w net.ipv4.tcp_retries2=9")
    began = time.monotonic()
    done = cnibench(*clean, cwd=tmp_path)
    # kubeadm on the second machine waits five minutes for the first, which is put back meanwhile
    assert time.monotonic() - began < JOIN_WAITS
    said = " ".join((done.stdout + done.stderr).split())
    ((as_before, _),) = AS_BEFORE.findall(said)
    assert as_before.endswith(machines.addresses[1])
    theirs = said.partition("not as it was before: ")[2].partition("ssh://")[0]
    assert "vethmine" in theirs
    assert "ip link delete cali0" in theirs
    assert "(gone)" not in theirs
    assert "-s 203.0.113.1/32 -j DROP" in somebody(machines, "iptables -S INPUT")
    assert somebody(machines, "sysctl -n net.ipv4.tcp_retries2").strip() == "9"
    somebody(machines, "sysctl -q -w net.ipv4.tcp_retries2=15")
    somebody(machines, "iptables -D INPUT -s 203.0.113.1 -j DROP")
    somebody(machines, "nft delete table ip filter")
    somebody(machines, "ip link delete cali0")
    somebody(machines, "ip link delete vethmine")
    somebody(machines, "ipset destroy mine")
    somebody(machines, "nft delete table ip mine")
    assert nothing_left(cnibench(*clean, cwd=tmp_path).stdout)
    for which in (0, 1):
        assert differences(before[which], machines.listing(which)) == []


def test_after_a_kill_with_a_cni_installed(
    machines: Machines, kind_parts: Parts, tmp_path: Path
) -> None:
    """What flannel made goes by what was claimed for it; what has a CNI's name and is not its own
    stays.
    """
    before = [machines.listing(which) for which in (0, 1)]
    argv = [CNIBENCH, *map(str, asked(machines, kind_parts, "flannel"))]
    with (tmp_path / "log").open("w") as stderr:
        run = subprocess.Popen(argv, stderr=stderr, cwd=tmp_path)
    try:
        ready = "test -e /var/lib/cnibench/open/flannel/ready && echo yes || true"
        until(lambda: all("yes" in machines.on(which, ready) for which in (0, 1)), LIMIT)
    finally:
        run.send_signal(signal.SIGKILL)
        run.wait()
    theirs = ("cali0", "flannel0", "cilium_host")
    for name in theirs:
        somebody(machines, f"ip link add {name} type bridge")
    there = set(machines.on(0, "ls /sys/class/net").split())
    clean = ("clean", "--cluster", machines.cluster)
    until(lambda: "would remove: what" in cnibench(*clean, "--dry-run", cwd=tmp_path).stdout)
    done = cnibench(*clean, cwd=tmp_path)
    said = " ".join((done.stdout + done.stderr).split())
    assert {"cni0", "flannel.1"} <= there
    for name in theirs:
        assert f"ip link delete {name} removes it" in said
        somebody(machines, f"ip link delete {name}")
    assert len(AS_BEFORE.findall(said)) == 1, said
    for which in (0, 1):
        assert differences(before[which], machines.listing(which)) == []


@contextmanager
def changed(machines: Machines, change: str, undo: str) -> Iterator[None]:
    machines.on(1, change)
    try:
        yield
    finally:
        machines.on(1, undo)


@pytest.mark.parametrize(
    ("change", "undo", "said"),
    [
        (
            "mkdir /etc/kubernetes; touch /etc/kubernetes/kubelet.conf",
            "rm -r /etc/kubernetes",
            "it is a node of a cluster already",
        ),
        (
            "cp /bin/sleep /tmp/conmon; /tmp/conmon 100 >/dev/null 2>&1 & sleep 0.5",
            "kill $(pidof conmon); rm /tmp/conmon",
            "it runs containers of others",
        ),
        (
            "systemd-run -q --unit port socat TCP-LISTEN:10250 STDOUT;"
            " timeout 60 sh -c 'until ss -Hltn sport = :10250 | grep -q .; do sleep 0.1; done'",
            "systemctl stop port",
            "port 10250 is in use",
        ),
        (
            "mkdir /var/lib/cnibench; mount -t tmpfs -o size=20m none /var/lib/cnibench",
            "umount /var/lib/cnibench; rmdir /var/lib/cnibench",
            "20 MiB are free below /var/lib",
        ),
        (
            "mv /usr/bin/flock /usr/bin/flock.gone",
            "mv /usr/bin/flock.gone /usr/bin/flock",
            "not installed: flock",
        ),
        (
            "ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/other; cd /etc/ssh;"
            " echo 'HostKey /etc/ssh/other' >sshd_config.d/other.conf; systemctl restart ssh",
            "rm /etc/ssh/other* /etc/ssh/sshd_config.d/other.conf; systemctl restart ssh",
            "its host key is another one",
        ),
        ("systemctl stop ssh", "systemctl start ssh", "nothing listens on its ssh port"),
        (
            "mv /root/.ssh/authorized_keys /root/.ssh/not",
            "mv /root/.ssh/not /root/.ssh/authorized_keys",
            "ssh does not let this user in",
        ),
    ],
    ids=["node", "containers", "port", "disk", "program", "key", "refused", "denied"],
)
def test_what_is_in_the_way_is_named_and_nothing_changes(
    change: str, undo: str, said: str, machines: Machines, kind_parts: Parts, tmp_path: Path
) -> None:
    with changed(machines, change, undo):
        before = machines.listing(1)
        done = subprocess.run(
            [CNIBENCH, *map(str, asked(machines, kind_parts))],
            capture_output=True,
            text=True,
            timeout=LIMIT,
            cwd=tmp_path,
            check=False,
        )
        assert differences(before, machines.listing(1)) == []
    assert (done.returncode, said in done.stderr, "remedy:" in done.stderr) == (3, True, True), (
        done.stderr
    )
    assert not (tmp_path / "runs").exists()


def test_a_step_during_which_the_connection_is_lost_is_repeated(machines: Machines) -> None:
    """Of a machine behind a jump host, which is restarted then."""
    machine = Machine("b", parse(machines.behind)[1])
    said: list[str] = []
    machine.connection.notify = said.append
    step = "echo begun >>/tmp/steps; sleep 3; cat /tmp/steps"
    try:
        machine.inspect()
        came = machine.run("exec", "sh", "-c", "echo $SSH_CONNECTION", timeout=LIMIT).stdout
        assert came.split()[0] == machines.addresses[0]
        with ThreadPoolExecutor() as pool:
            done = pool.submit(machine.run, "exec", "sh", "-c", step, timeout=LIMIT)
            until(lambda: "begun" in machines.on(1, "cat /tmp/steps 2>/dev/null || true"))
            machines.on(1, "pkill -f '^sshd: root@notty'")
            assert done.result().stdout == "begun\nbegun\n"
        machines.restart(1)
        machine.run("exec", "true", timeout=LIMIT)
    finally:
        machine.connection.close()
        machines.on(1, "rm -f /tmp/steps")
    lost, again, _, restarted = said
    assert "the connection is lost" in lost
    assert re.search(r"connected again after \d+ s$", again)
    assert re.search(r"connected again after \d+ s; the machine was restarted$", restarted)


def test_sudo_that_asks_for_a_password(machines: Machines, tmp_path: Path) -> None:
    public = (machines.folder / "key.pub").read_text()
    machines.on(
        0,
        "useradd -m admin; echo admin:secret | chpasswd; usermod -aG sudo admin;"
        f" mkdir ~admin/.ssh; echo '{public}' >~admin/.ssh/authorized_keys;"
        " chown -R admin ~admin/.ssh",
    )
    try:
        cluster = machines.cluster.replace("root@", "admin@", 1)
        done = cnibench("doctor", "--cluster", cluster, cwd=tmp_path, status=3)
        assert "sudo asks for a password" in re.sub(r"\s+", " ", done.stdout)
    finally:
        machines.on(0, "userdel -rf admin 2>/dev/null; rm -rf /home/admin")


def test_installing_is_asked_for_first(machines: Machines, tmp_path: Path) -> None:
    words = ("run", "--cluster", machines.cluster, "--kubernetes", machines.parts, "--cni", "host")
    done = cnibench(*words, cwd=tmp_path, status=2)
    assert "--allow-install allows it" in done.stderr
    assert os.listdir(tmp_path) == []
