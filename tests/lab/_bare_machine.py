"""A machine for the scripts of clusters/ssh, without ssh and systemd: namespaces (mounts, network,
processes, cgroups) with a root folder of their own. The kernel and the programs are this machine's.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from cnibench.clusters.ssh.machine import script

_numbers = count(1)
LIMIT = 30.0  # s
D = "/var/lib/cnibench"
_START = """
set -e
mkdir "$2"; echo $$ >"$2/cgroup.procs"
exec unshare --mount --net --pid --cgroup --fork --kill-child sh -c "$3" start "$1"
"""
_INIT = """
set -e
R=$1
mount --make-rprivate /
mount -t tmpfs machine "$R"; mount --make-shared "$R" # as systemd does
mkdir -p "$R/var/lib" "$R/run" "$R/tmp" "$R/root" "$R/boot" "$R/opt" "$R/srv" "$R/proc" "$R/sys" "$R/dev" "$R/etc"
for part in bin sbin lib lib64 share; do
  mkdir -p "$R/usr/$part"; ln -s "usr/$part" "$R/$part"
  [ ! -d "/usr/$part" ] || mount --bind "/usr/$part" "$R/usr/$part"
done
cp -a /etc/alternatives /etc/passwd /etc/group "$R/etc"
[ ! -d /etc/iproute2 ] || cp -a /etc/iproute2 "$R/etc"
mount -t proc proc "$R/proc"; mount -t sysfs sys "$R/sys"; mount --rbind /dev "$R/dev"
mount -t cgroup2 cgroup2 "$R/sys/fs/cgroup"
sysctl -q -w net.ipv6.conf.default.accept_dad=0 net.ipv4.ip_forward=0 net.ipv6.conf.all.forwarding=0
mkdir "$R/run/mount"; : >"$R/run/xtables.lock"
ip link set lo up
ip link add eth0 type veth peer name wire
ip address add 192.0.2.1/24 dev eth0; ip link set eth0 up; ip link set wire up
exec chroot "$R" sh -c 'echo ready; while :; do sleep 1000; done'
"""  # noqa: E501


class BareMachine:
    """``pid`` is its first process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def on(self, command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """A command of the shell on it."""
        return self._enter("sh", "-c", command, check=check)

    def shows(self, command: str) -> str:
        return self.on(command).stdout

    def script(
        self, name: str, *words: str, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """One of our scripts."""
        return self._enter("sh", "-c", script(name), "cnibench", *words, check=check)

    def background(self, command: str) -> None:
        """A command that goes on."""
        self.on(f"({command}) </dev/null >/dev/null 2>&1 &")

    def devices(self) -> set[str]:
        return set(self.shows("ls /sys/class/net").split())

    def _enter(self, *argv: str, check: bool) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            ["nsenter", "--target", str(self.pid), "--all", "--root", "--wd", *argv],
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
            env={"PATH": os.defpath + ":/usr/sbin:/sbin"},
        )
        assert not check or done.returncode == 0, f"{done.stdout[-500:]}{done.stderr[-500:]}"
        return done


@contextmanager
def bare_machine(folder: Path) -> Iterator[BareMachine]:
    """It is gone, with all that runs in it, when the context ends."""
    mounts = (line.split() for line in Path("/proc/self/mounts").read_text().splitlines())
    unified = next(Path(one[1]) for one in mounts if one[2] == "cgroup2")
    own = unified / f"cnibench-test-{os.getpid()}-{next(_numbers)}"
    root = folder / "root"
    root.mkdir()
    with subprocess.Popen(
        ["sh", "-c", _START, "start", root, own, _INIT], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
            yield BareMachine(int(children.split()[0]))
        finally:
            process.kill()
            process.wait()
            with suppress(OSError):
                (own / "cgroup.kill").write_text("1")
            for path in sorted((one for one in own.rglob("*") if one.is_dir()), reverse=True):
                _remove(path)
            _remove(own)


def _remove(cgroup: Path) -> None:
    """Its processes end a moment after they were killed."""
    subprocess.run(
        ["sh", "-c", 'for _ in $(seq 50); do rmdir "$1" && exit; sleep 0.1; done', "-", cgroup],
        stderr=subprocess.DEVNULL,
        check=False,
    )
