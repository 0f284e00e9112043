"""PID 1 of the VM: mounts what a system has, runs one command with its output sent to the host,
passes signals in, reports the end.

Started as ``python -S`` with the modules of the host's bundle (preload.py), since every import
costs time under emulation. It never returns: the kernel panics when PID 1 ends, which the host
takes for a failure.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import socket
import struct
import subprocess
import time
import traceback
from fcntl import ioctl
from pathlib import Path
from typing import Any, NoReturn

from cnibench.vm import frames
from cnibench.vm.preload import FD

PORT = "cnibench.port"  # name of the virtio-serial port
_NOSUID, _NODEV, _NOEXEC = 2, 4, 8
_QUIET = _NOSUID | _NODEV | _NOEXEC
_MOUNTS = (  # /dev is there: the first stage moves its own over
    ("proc", "/proc", "proc", _QUIET, ""),
    ("sysfs", "/sys", "sysfs", _QUIET, ""),
    ("devpts", "/dev/pts", "devpts", _NOSUID | _NOEXEC, "mode=620,ptmxmode=666"),
    ("tmpfs", "/dev/shm", "tmpfs", _NOSUID | _NODEV, "mode=1777"),
    ("tmpfs", "/run", "tmpfs", _NOSUID | _NODEV, "mode=755"),
    ("cgroup2", "/sys/fs/cgroup", "cgroup2", _QUIET, ""),
    ("tracefs", "/sys/kernel/tracing", "tracefs", _QUIET, ""),
    ("debugfs", "/sys/kernel/debug", "debugfs", _QUIET, ""),
    ("bpf", "/sys/fs/bpf", "bpf", _QUIET, "mode=700"),
)
# perf as an ordinary kernel lets root use it, with the kernel's symbols
_SYSCTLS = {
    "kernel/perf_event_paranoid": "-1",
    "kernel/kptr_restrict": "0",
    "kernel/printk": "5 4 1 7",
}
_LOADING = 60.0  # s for modules: an emulated CPU takes its time
# What the kernel does not load by itself when it is asked for. On a host that would change how its
# own bridges filter; here nothing is. Not openvswitch, which is loaded when it is asked for: with
# it Linux 6.1 tracks connections in every network namespace.
_MODULES = ("br_netfilter", "ila")
# What most runs need and the kernel would load one by one while the run waits: loaded on the other
# CPU while the run's program starts.
_SOON = (
    "veth",
    "bridge",
    "ip_tables",
    "iptable_filter",
    "iptable_nat",
    "nf_tables",
    "nft_compat",
    "nft_chain_nat",
    "nf_conntrack",
    "xt_conntrack",
    "xt_comment",
    "xt_mark",
    "xt_set",
    "xt_addrtype",
    "xt_tcpudp",
    "xt_multiport",
    "xt_statistic",
    "xt_nat",
    "xt_MASQUERADE",
    "ipt_rpfilter",
    "ip_set_hash_net",
    "ip_set_hash_ip",
    "ipip",
    "nf_conntrack_netlink",
    "tcp_diag",
    "vxlan",
    "tun",
    "sch_tbf",
    "geneve",
    "wireguard",
    "dummy",
    "vrf",
    "macvlan",
    "ipvlan",
    "cls_bpf",
    "sch_ingress",
)
_DRAIN_SECONDS = (
    2.0  # how long output may still come after the command's end, from programs it left behind
)
_libc = ctypes.CDLL(None, use_errno=True)


def main() -> NoReturn:
    """Never returns; the host ends the VM once it has read the last frame."""
    signal.signal(
        signal.SIGINT, signal.SIG_DFL
    )  # which the kernel takes as "ignored" for PID 1, and the command inherits as it should be
    for source, target, kind, flags, options in _MOUNTS:
        _mount(source, target, kind, flags, options)
    port = _open_port()
    try:
        _prepare()
        _send(
            port,
            frames.UP,
            json.dumps({"release": os.uname().release, "uptime": time.monotonic()}).encode(),
        )
        reader = frames.Reader()
        job = _receive_job(port, reader)
        _mount(job["run_tag"], job["run_dir"], "9p", _NODEV, job["run_options"])
        status = _run(port, reader, job)
        os.sync()
        _send(port, frames.EXIT, str(status).encode())
    except Exception:
        _send(port, frames.FAILED, traceback.format_exc().encode())
    while True:
        time.sleep(60)


def _mount(source: str, target: str, kind: str, flags: int, options: str) -> None:
    os.makedirs(target, exist_ok=True)
    if _libc.mount(source.encode(), target.encode(), kind.encode(), flags, options.encode()) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"mount {kind} on {target}: {os.strerror(number)}")


def _open_port() -> int:
    """The virtio-serial port, found by name through sysfs: no udev runs here that would make
    links.
    """
    for entry in Path("/sys/class/virtio-ports").iterdir():
        if (entry / "name").read_text().strip() == PORT:
            return os.open(f"/dev/{entry.name}", os.O_RDWR | os.O_CLOEXEC)
    raise FileNotFoundError(f"no virtio port named {PORT}")


def _prepare() -> None:
    for name, value in _SYSCTLS.items():
        Path("/proc/sys", name).write_text(value)
    Path("/dev/net").mkdir(exist_ok=True)
    if not Path("/dev/net/tun").exists():
        os.mknod("/dev/net/tun", 0o20666, os.makedev(10, 200))  # opening it loads the module
    for name, target in (
        ("fd", "self/fd"),
        ("stdin", "self/fd/0"),
        ("stdout", "self/fd/1"),
        ("stderr", "self/fd/2"),
    ):
        if not Path("/dev", name).is_symlink():
            Path("/dev", name).symlink_to(f"/proc/{target}")
    # Some kernels have none of them or have them built in: what is missing then, the checks of the
    # profiles tell.
    try:
        subprocess.run(
            ["/sbin/modprobe", "--quiet", "--all", *_MODULES],
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=_LOADING,
        )
    except subprocess.TimeoutExpired:
        pass
    subprocess.Popen(
        ["/sbin/modprobe", "--quiet", "--all", *_SOON], stdin=subprocess.DEVNULL
    )  # _reap() buries it
    with socket.socket(
        socket.AF_INET, socket.SOCK_DGRAM
    ) as any_socket:  # lo up: SIOCSIFFLAGS with IFF_UP | IFF_RUNNING
        ioctl(any_socket, 0x8914, struct.pack("16sh22x", b"lo", 0x41))


def _send(port: int, kind: bytes, payload: bytes = b"") -> None:
    rest = memoryview(frames.pack(kind, payload))
    while rest:
        rest = rest[os.write(port, rest) :]


def _receive_job(port: int, reader: frames.Reader) -> dict[str, Any]:
    while True:
        for kind, payload in reader.feed(os.read(port, 65536)):
            if kind == frames.JOB:
                job: dict[str, Any] = json.loads(payload)
                return job


def _run(port: int, reader: frames.Reader, job: dict[str, Any]) -> int:
    """Runs the job's command; its exit status, 128 + N when signal N ended it."""
    os.makedirs(job["cwd"], exist_ok=True)
    child = subprocess.Popen(
        job["argv"],
        cwd=job["cwd"],
        env=job["env"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        pass_fds=(FD,),
    )
    assert child.stdout is not None
    assert child.stderr is not None
    pipes = {child.stdout.fileno(): frames.OUT, child.stderr.fileno(): frames.ERR}
    status: int | None = None
    deadline = 0.0
    beat = 0.0
    poller = select.poll()
    for fd in (*pipes, port):
        poller.register(fd, select.POLLIN)
    while status is None or (pipes and time.monotonic() < deadline):
        for fd, _event in poller.poll(200):
            if fd == port:
                for kind, payload in reader.feed(os.read(port, 65536)):
                    if kind == frames.SIGNAL and status is None:
                        os.kill(child.pid, int(payload))
            elif piece := os.read(fd, 65536):
                _send(port, pipes[fd], piece)
            else:
                poller.unregister(fd)
                del pipes[fd]
        if time.monotonic() >= beat:
            _send(port, frames.BEAT)
            beat = time.monotonic() + frames.BEAT_SECONDS
        if (ended := _reap(child.pid)) is not None:
            status = ended
            deadline = time.monotonic() + _DRAIN_SECONDS
    return status


def _reap(child: int) -> int | None:
    """Buries all that ended; the exit status of ``child`` when it is among them."""
    found: int | None = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            found = code if code >= 0 else 128 - code
