"""Two virtual machines with Debian, systemd, sshd and a stock kernel, joined by virtio: each has a
disk that outlives a reboot, a card in one Ethernet segment with the other, and a card for ssh.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from kind import cache, node, roots

from cnibench.vm import cpio
from cnibench.vm.accel import QEMU, accelerator
from cnibench.vm.initramfs import program_files
from cnibench.vm.kernel import Kernel, newest

UP = 600  # s until sshd answers: the machine of the tests may emulate both
_SIZE = "6G"  # of the disk, sparse
_MODULES = ("virtio_pci", "virtio_blk", "ext4", "virtio_net")
_INIT = """#!/bin/sh
export PATH=/bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
for module in {modules}; do insmod $module; done
mount -t ext4 /dev/vda /new || exit 1
mount -n --move /dev /new/dev
mount -n --move /proc /new/proc
mount -n --move /sys /new/sys
exec switch_root /new /sbin/init
"""
_NETWORK = """[Unit]
Before=network-pre.target ssh.service
[Service]
Type=oneshot
ExecStart=/bin/sh -c 'ip link set lo up; \\
  for link in eth0 eth1; do ip link set $link up; done; \\
  ip address add 10.0.2.15/24 dev eth0; ip route add default via 10.0.2.2; \\
  ip address add {network}$(hostname)/24 dev eth1'
[Install]
WantedBy=multi-user.target
"""
_SEGMENT = "10.77.0."  # the measured one; a machine's name is its last number
_UNITS = ("nginx.service", "netperf.service", "iperf3.service")  # that packages would start


@dataclasses.dataclass(frozen=True)
class Virtual:
    """``ports`` are those of 127.0.0.1 that lead to each machine's sshd."""

    ports: tuple[int, int]
    addresses: tuple[str, str]
    folder: Path

    @property
    def cluster(self) -> str:
        return ",".join(
            f"ssh://root@127.0.0.1:{port}?address={address}"
            for port, address in zip(self.ports, self.addresses, strict=True)
        )

    def on(self, which: int, command: str) -> str:
        """A command of the shell on one of them."""
        words = ("ssh", "-p", str(self.ports[which]), "root@127.0.0.1", command)
        return subprocess.run(
            words, capture_output=True, text=True, check=True, timeout=UP, stdin=subprocess.DEVNULL
        ).stdout

    def boot_id(self, which: int) -> str:
        return self.on(which, "cat /proc/sys/kernel/random/boot_id")

    def await_up(self, which: int, other_than: str = "") -> None:
        """Until it answers with the boot ID of another start. Raises AssertionError after UP."""
        limit = time.monotonic() + UP
        while time.monotonic() < limit:
            try:
                if self.boot_id(which) != other_than:
                    return
            except subprocess.SubprocessError:
                pass
            time.sleep(1)
        console = (self.folder / f"{which}.console").read_bytes()[-2000:]
        raise AssertionError(f"machine {which} is not up:\n{console.decode(errors='replace')}")


def virtual_machines(folder: Path) -> Iterator[Virtual]:
    """Both of them, until the generator goes on. PATH has an ssh that knows them meanwhile."""
    key, config = folder / "key", folder / "config"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    kernel, disk = newest(), _disk()
    initrd = folder / "initrd"
    initrd.write_bytes(_initrd(kernel))
    made = Virtual((_free(), _free()), (f"{_SEGMENT}1", f"{_SEGMENT}2"), folder)
    config.write_text(
        f"Host 127.0.0.1\n  IdentityFile {key}\n  IdentitiesOnly yes\n"
        f"  StrictHostKeyChecking accept-new\n  UserKnownHostsFile {folder / 'known_hosts'}\n"
    )
    program = folder / "path" / "ssh"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {config} "$@"\n')
    program.chmod(0o755)
    with ExitStack() as running, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        for which in (0, 1):
            own = folder / f"{which}.ext4"
            subprocess.run(["cp", "--sparse=always", "--reflink=auto", disk, own], check=True)
            _put(own, key.with_suffix(".pub"), "/root/.ssh/authorized_keys")
            argv = _qemu(kernel, initrd, own, folder, which, made.ports[which])
            running.enter_context(_started(argv, folder / f"{which}.qemu"))
        for which in (0, 1):
            made.await_up(which)
        yield made


def _disk() -> Path:
    """The file system that both begin with, made when it is not there."""
    root, kernel = roots.machine(), newest()

    def build(where: Path) -> None:
        with cache.lock("machine"), node.unpacked(root / "root.tar") as tree:
            units = tree / "etc/systemd/system"
            for unit in _UNITS:
                (units / unit).symlink_to("/dev/null")
            for timer in units.glob("timers.target.wants/*"):
                timer.unlink()
            (units / "network.service").write_text(_NETWORK.format(network=_SEGMENT))
            wanted = units / "multi-user.target.wants"
            (wanted / "network.service").symlink_to("/etc/systemd/system/network.service")
            (tree / "root/.ssh").mkdir(mode=0o700, parents=True, exist_ok=True)
            (tree / "etc/fstab").write_text("/dev/vda / ext4 defaults 0 1\n")
            (tree / "lib/modules").mkdir(exist_ok=True)
            shutil.copytree(kernel.modules, tree / "lib/modules" / kernel.release, symlinks=True)
            subprocess.run(["mkfs.ext4", "-q", "-d", tree, where / "disk.ext4", _SIZE], check=True)

    return cache.part("disk", cache.key(root.name, kernel.release, Path(__file__)), build) / (
        "disk.ext4"
    )


def _put(disk: Path, file: Path, to: str) -> None:
    """A file into an ext4 file system that nobody has mounted."""
    for request in (f"write {file} {to}", f"set_inode_field {to} mode 0100600"):
        subprocess.run(["debugfs", "-w", "-R", request, disk], check=True, capture_output=True)


def _initrd(kernel: Kernel) -> bytes:
    """Mounts the disk and enters it."""
    order: list[Path] = []
    for module in _MODULES:
        shown = subprocess.run(
            ["modprobe", "-S", kernel.release, "--show-depends", module],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for file in re.findall(r"^insmod (\S+)", shown, re.MULTILINE):
            if Path(file) not in order:
                order.append(Path(file))
    files = program_files(
        {"sh": "sh", "mount": "mount", "insmod": "kmod", "switch_root": "switch_root"}
    )
    for file in order:
        files[f"modules/{file.name}"] = (0o644, file.read_bytes())
    script = _INIT.format(modules=" ".join(f"/modules/{file.name}" for file in order))
    files["init"] = (0o755, script.encode())
    return cpio.pack(files, {"new", "proc", "sys"})


def _qemu(
    kernel: Kernel, initrd: Path, disk: Path, folder: Path, which: int, port: int
) -> list[str]:
    accel = accelerator(kernel)
    name, near, far = str(which + 1), folder / f"{which}.wire", folder / f"{1 - which}.wire"
    options = (
        f"console=ttyS0 panic=-1 no_timer_check systemd.hostname={name}"
        f" systemd.unit=multi-user.target quiet {accel.kernel_options}"
    )
    return [
        *(QEMU, "-name", f"cnibench-e2e-{name}", *accel.options, "-machine", "q35"),
        *("-smp", "2", "-m", "3072", "-nodefaults", "-no-user-config", "-display", "none"),
        *("-serial", f"file:{folder / f'{which}.console'}"),
        *("-drive", f"file={disk},format=raw,if=virtio,cache=unsafe"),
        *("-netdev", f"user,id=ssh,hostfwd=tcp:127.0.0.1:{port}-:22"),
        *("-device", f"virtio-net-pci,netdev=ssh,romfile=,mac=52:54:00:00:01:0{name}"),
        *(
            "-netdev",
            f"dgram,id=wire,local.type=unix,local.path={near},remote.type=unix,remote.path={far}",
        ),
        *("-device", f"virtio-net-pci,netdev=wire,romfile=,mac=52:54:00:00:02:0{name}"),
        *("-device", "virtio-rng-pci"),
        *("-kernel", str(kernel.image), "-initrd", str(initrd), "-append", options),
    ]


@contextmanager
def _started(argv: list[str], log: Path) -> Iterator[None]:
    """qemu until the block ends, or this process does."""
    with log.open("w") as said:
        words = ["setpriv", "--pdeathsig", "KILL", *argv]
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        try:
            yield
        finally:
            process.kill()
            process.wait()


def _free() -> int:
    """A port of 127.0.0.1 that nobody uses."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])
