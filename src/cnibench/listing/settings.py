"""Kernel settings of a network namespace: its sysctls, and the queues of its devices in sysfs."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator, Sequence
from functools import cache

from cnibench.listing.namespace import Namespace

_HOME = "/proc/sys/net"
_FOLDERS = (
    "bridge",
    "core",
    "ipv4",
    "ipv4/route",
    "ipv4/vs",
    "ipv6",
    "ipv6/icmp",
    "ipv6/route",
    "ipv6/conf/all",
    "ipv6/conf/default",
    "ipv4/conf/all",
    "ipv4/conf/default",
    "mpls",
    "netfilter",
    "unix",
)
# What counts, what is drawn, and what depends on the modules that anybody has loaded.
_VARIES = frozenset(
    (
        "core/netdev_rss_key",
        "ipv4/tcp_available_congestion_control",
        "ipv4/tcp_allowed_congestion_control",
        "ipv4/tcp_available_ulp",
        "ipv4/tcp_fastopen_key",
        "ipv6/conf/all/stable_secret",
        "ipv6/conf/default/stable_secret",
        "netfilter/nf_conntrack_count",
        "netfilter/nf_conntrack_buckets",
    )
)
_FSOPEN, _FSCONFIG, _FSMOUNT, _CREATE = 430, 431, 432, 6  # the same on all machines
_QUEUES = ("rps_cpus", "rps_flow_cnt", "xps_cpus", "xps_rxqs", "tx_maxrate")
_TUNING = ("gro_flush_timeout", "napi_defer_hard_irqs", "threaded")
_libc = ctypes.CDLL(None, use_errno=True)


@cache
def _keys(sizes: tuple[int, ...]) -> tuple[str, ...]:
    """The keys that this kernel has now; looked for again when a folder has another size."""
    found = []
    for folder in _FOLDERS:
        with contextlib.suppress(FileNotFoundError):
            found += [
                f"{folder}/{entry.name}"
                for entry in os.scandir(f"{_HOME}/{folder}")
                if entry.is_file(follow_symlinks=False)
            ]
    return tuple(sorted(set(found) - _VARIES))


def sysctls() -> list[str]:
    """``key value`` of every key of the calling thread's namespace that can be read."""
    found = []
    folder = os.open(_HOME, os.O_PATH | os.O_DIRECTORY)
    try:
        for key in _keys(tuple(_sizes())):
            try:
                fd = os.open(key, os.O_RDONLY, dir_fd=folder)
            except OSError:
                continue
            try:
                value = os.read(fd, 4096)
            except OSError:
                continue
            finally:
                os.close(fd)
            found.append(f"{key} {' '.join(value.decode(errors='replace').split())}")
    finally:
        os.close(folder)
    return found


def _sizes() -> Iterator[int]:
    for folder in _FOLDERS:
        try:
            yield len(os.listdir(f"{_HOME}/{folder}"))
        except FileNotFoundError:
            yield 0


def queues(ns: Namespace, devices: Sequence[str]) -> Iterator[str]:
    """RPS, XPS and NAPI settings of devices of ``ns``, the calling thread's namespace; nothing
    where the kernel refuses a sysfs of it.
    """
    if ns.sysfs is None:
        ns.sysfs = _sysfs()
    if ns.sysfs < 0:
        return
    for device in devices:
        for name in _TUNING:
            if (value := _read(ns.sysfs, f"{device}/{name}")) is not None:
                yield f"{device} {name} {value}"
        try:
            folder = os.open(f"{device}/queues", os.O_RDONLY | os.O_DIRECTORY, dir_fd=ns.sysfs)
        except OSError:
            continue
        try:
            for queue in sorted(os.listdir(folder)):
                for name in _QUEUES:
                    if (value := _read(folder, f"{queue}/{name}")) is not None:
                        yield f"{device} {queue} {name} {value}"
        finally:
            os.close(folder)


def _sysfs() -> int:
    """The folder class/net of a sysfs of the calling thread's namespace, mounted nowhere; -1 where
    the kernel refuses it.
    """
    context = _libc.syscall(_FSOPEN, b"sysfs", 1)
    if context < 0:
        return -1
    try:
        if _libc.syscall(_FSCONFIG, context, _CREATE, None, None, 0):
            return -1
        mount = _libc.syscall(_FSMOUNT, context, 1, 0)
    finally:
        os.close(context)
    if mount < 0:
        return -1
    try:
        return os.open("class/net", os.O_RDONLY | os.O_DIRECTORY, dir_fd=mount)
    finally:
        os.close(mount)


def _read(folder: int, path: str) -> str | None:
    try:
        fd = os.open(path, os.O_RDONLY, dir_fd=folder)
    except OSError:
        return None
    try:
        return os.read(fd, 4096).decode().strip()
    except OSError:
        return None
    finally:
        os.close(fd)
