"""Two machines with nothing but Debian, systemd and sshd, as containers of this one; ssh leads to
them as a user's configuration does.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from _kind_runs import engine, until
from kind import binaries, images, machine
from kind.parts import Parts

_BEHIND = "behind"  # what the user's configuration calls the second one, behind a jump host
_RUNTIME = ("containerd", "containerd-shim-runc-v2", "ctr", "runc")  # of this machine's packages


@dataclasses.dataclass(frozen=True)
class Machines:
    """``names`` are the containers', ``parts`` the folder for --kubernetes."""

    names: tuple[str, str]
    addresses: tuple[str, str]
    parts: Path
    folder: Path
    """with the key, known_hosts and configuration of ssh"""

    @property
    def cluster(self) -> str:
        return ",".join(f"ssh://root@{address}" for address in self.addresses)

    @property
    def behind(self) -> str:
        """The same, the second one reached through the first."""
        return f"ssh://root@{self.addresses[0]},ssh://root@{_BEHIND}"

    def on(self, which: int, command: str) -> str:
        """A command of the shell on one of them, without ssh."""
        return engine("podman", "exec", self.names[which], "sh", "-c", command)

    def listing(self, which: int) -> list[str]:
        """What it has, by commands that are not cnibench's."""
        return self.on(which, _LISTING).splitlines()

    def restart(self, which: int) -> None:
        """As near to a reboot as a container gets: all its processes are new."""
        had = self.on(which, "ip -o -4 address show dev eth0; ip route show default")
        address, default = had.split()[3], had.splitlines()[-1]
        engine("podman", "restart", "--time=0", self.names[which])
        # podman gives it another address
        self.on(
            which,
            f"ip address flush dev eth0 scope global; ip address add {address} dev eth0;"
            f" ip route replace {default}",
        )
        self._await_running(which)

    def _await_running(self, which: int) -> None:
        until(lambda: "running" in self.on(which, _RUNNING))
        # The kernel adds the route of an address some time after the address.
        until(lambda: " table local " in self.on(which, _ADDRESSED))


_LISTING = """
dpkg -l | tail -n +6
find / -xdev ! -path '/proc/*' ! -path '/tmp/*' ! -path '/run/*' -newermt @0 -type f -printf '%p %s\\n' |
  grep -v '^/etc/ld.so.cache' | sort
find /var /run -xdev -maxdepth 3 ! -path '/var/log/*' ! -path '/run/systemd/*' ! -path '/run/sshd*' ! -path '/run/motd*' \\
  ! -path '/var/lib/systemd/*' ! -path '/run/user/*' -printf '%p\\n' | sort
ip -o link | sed 's/@.*//; s/^[0-9]*: //' | sort
ip route show table all | sort; ip rule
iptables-nft-save | grep -v '^#'; nft list tables
grep . /proc/net/ip_tables_names >/dev/null && iptables-legacy-save | grep -e ^-A -e '^:[A-Z]*-'
systemctl list-unit-files --no-legend; mount | awk '{print $3}' | sort; ls /sys/fs/cgroup/*/ | grep -i kubepods
ps -eo comm | grep -E 'kube|containerd|etcd'
sysctl net.ipv4.ip_forward net.ipv4.conf.all.rp_filter net.bridge 2>/dev/null
true
"""  # noqa: E501


def parts_folder(where: Path) -> Path:
    """What --kubernetes takes, out of what kind's node image is made of."""
    built = binaries.kubernetes()
    found = {
        "bin": [
            *(built / name for name in ("kubeadm", "kubelet")),
            *(Path(shutil.which(name) or name) for name in _RUNTIME),
        ],
        "cni": sorted((built / "cni").iterdir()),
        "images": sorted(images.control_plane().glob("*.tar")),
    }
    for folder, files in found.items():
        (where / folder).mkdir(parents=True)
        for file in files:
            (where / folder / file.name).symlink_to(file.resolve())
    return where


def machines(parts: Parts, folder: Path) -> Iterator[Machines]:
    """Both of them, until the generator goes on. PATH has an ssh that knows them meanwhile."""
    key, config, known = folder / "key", folder / "config", folder / "known_hosts"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    tag = f"cnibench-e2e-{os.getpid()}"
    names = (f"{tag}-a", f"{tag}-b")
    network = parts.environment()["KIND_EXPERIMENTAL_PODMAN_NETWORK"]
    try:
        for name in names:
            options = ("--privileged", "--cgroupns=private", "--tmpfs=/tmp", "--tmpfs=/run")
            more = ("--volume=/var", "--volume=/lib/modules:/lib/modules:ro")
            engine(
                *("podman", "run", "-d", "--name", name, "--hostname", name),
                *(f"--network={network}", *options, *more, machine.image()),
            )
        found = f'{{{{(index .NetworkSettings.Networks "{network}").IPAddress}}}}'
        one, two = (engine("podman", "inspect", "-f", found, name).strip() for name in names)
        made = Machines(names, (one, two), parts_folder(folder / "parts"), folder)
        for which in (0, 1):
            made._await_running(which)
            made.on(
                which,
                f"mkdir -p /root/.ssh; echo '{key.with_suffix('.pub').read_text()}'"
                " >/root/.ssh/authorized_keys; chmod -R go= /root/.ssh",
            )
        config.write_text(
            f"Host {one} {two} {_BEHIND}\n  IdentityFile {key}\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {known}\n"
            f"Host {_BEHIND}\n  HostName {two}\n  ProxyJump root@{one}\n"
        )
        scan = subprocess.run(["ssh-keyscan", one, two], capture_output=True, text=True, check=True)
        known.write_text(scan.stdout)
        program = folder / "path" / "ssh"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {config} "$@"\n')
        program.chmod(0o755)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
            yield made
    finally:
        for name in names:
            subprocess.run(
                ["podman", "rm", "-fv", "--time=0", name], capture_output=True, check=False
            )


_ADDRESSED = "ip -6 route show table all dev eth0 | grep '^local fe80:' || true"
_RUNNING = (
    "systemctl is-system-running --wait 2>&1; systemctl is-active ssh | sed s/^active/running/"
)
