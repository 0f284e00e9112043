"""Network namespaces as files of the tree's private tmpfs, each with a netlink socket of its own
that is kept open.

All of it works on the calling thread (setns(2) changes a thread, not a process) and costs no
process.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from cnibench.clusters.lab.namespaces.iproute import iproute
from cnibench.clusters.lab.namespaces.tree import NETNS, loopback_up
from cnibench.errors import ClusterError, MissingError
from cnibench.system import namespaces
from cnibench.system import process as programs
from cnibench.system.namespaces import CLONE_NEWNET

_libc = ctypes.CDLL(None, use_errno=True)
_MS_BIND, _MNT_DETACH = 4096, 2


class Namespace:
    """One network namespace. ``links`` maps each device that we made in it to its interface
    index.
    """

    def __init__(self, name: str) -> None:
        """Makes it, with lo up. Raises ClusterError."""
        self.name = name
        self.path = NETNS / name
        self.links: dict[str, int] = {"lo": 1}
        self.unheld: dict[str, str] = {}  # sysctls that are not what was asked for, in words
        self._ipr: Any = None
        self.sysfs: int | None = None  # a descriptor of its class/net, once it was asked for
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            self.path.touch(exist_ok=False)
            if _libc.unshare(CLONE_NEWNET):
                raise ClusterError(
                    f"the namespace {name} cannot be made: {os.strerror(ctypes.get_errno())}"
                )
            loopback_up()
            if _libc.mount(
                b"/proc/thread-self/ns/net",
                str(self.path).encode(),
                b"",
                ctypes.c_ulong(_MS_BIND),
                None,
            ):
                raise ClusterError(
                    f"the namespace {name} cannot be kept: {os.strerror(ctypes.get_errno())}"
                )
            self.fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise ClusterError(f"the namespace {name} cannot be made: {error.strerror}") from None
        finally:
            namespaces.enter(home)
            os.close(home)

    def inside(self) -> AbstractContextManager[None]:
        """The calling thread in this namespace: sockets made there stay there."""
        return namespaces.inside(self.fd)

    @property
    def ipr(self) -> Any:
        """The pyroute2 IPRoute of this namespace. It is the calling thread's until ``hang_up``:
        another thread's use of it would open a socket in that thread's own namespace.
        """
        if self._ipr is None:
            kind = iproute()
            with self.inside():
                self._ipr = kind()
        return self._ipr

    def hang_up(self) -> None:
        """Closes ``ipr``; the next use, in any thread, opens another. May be called twice."""
        if self._ipr is not None:
            self._ipr.close()
            self._ipr = None

    def enter(self, argv: Sequence[str]) -> list[str]:
        """``argv`` so that it runs in this namespace."""
        return ["nsenter", f"--net={self.path}", "--", *argv]

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout: float = 20,
        input: str | None = None,
        check: bool = True,
    ) -> programs.Done:
        """A program in this namespace to its end (iptables-restore, ipset, nft, tc). Raises
        ClusterError, LimitError.

        It is born there, of this thread: nsenter would be one more program, under emulation a tenth
        of a second.
        """
        plain = {"LANG": "C", "LC_ALL": "C"}
        if self.fd >= 0:
            with contextlib.suppress(MissingError), self.inside():
                return programs.run(argv, timeout=timeout, input=input, check=check, env=plain)
        # Removed, or no such program: a failure as of any program that fails, which ``check`` says
        # what to make of.
        return programs.run(self.enter(argv), timeout=timeout, input=input, check=check, env=plain)

    def read(self, path: str) -> str:
        """A file as seen there, /proc/net/* and /proc/sys/net/* above all. Raises ClusterError."""
        if path.startswith("/proc/net/"):
            path = "/proc/thread-self/net/" + path.removeprefix("/proc/net/")
        try:
            with self.inside():
                return Path(path).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise ClusterError(f"{self.name}: {path}: {error}") from None

    def sysctl(self, values: Mapping[str, object]) -> dict[str, str]:
        """Writes keys like ``net/ipv4/ip_forward``. The result says what holds now; a key that this
        kernel lacks is left out of it. What does not become what was asked is in ``unheld``.

        Raises ClusterError when a value is not one that the kernel takes.
        """
        held: dict[str, str] = {}
        with self.inside():
            for key, value in values.items():
                path = f"/proc/sys/{key}"
                try:
                    fd = os.open(path, os.O_RDWR)
                except FileNotFoundError:
                    self._note(key, value, "not in this kernel")
                    continue
                except PermissionError:  # not a namespace's own in this kernel
                    held[key] = " ".join(Path(path).read_text().split())
                    self._note(key, value, held[key])
                    continue
                except OSError as error:
                    raise ClusterError(f"{self.name}: {key}: {error.strerror}") from None
                try:
                    os.write(fd, f"{value}\n".encode())
                    held[key] = " ".join(os.pread(fd, 4096, 0).decode().split())
                except OSError as error:
                    raise ClusterError(f"{self.name}: {key} = {value}: {error.strerror}") from None
                finally:
                    os.close(fd)
                self._note(key, value, held[key])
        return held

    def _note(self, key: str, asked: object, holds: str) -> None:
        if holds == str(asked):
            self.unheld.pop(key, None)
        else:
            self.unheld[key] = f"{key.replace('/', '.')}: {asked} was asked for, {holds}"

    def remove(self) -> None:
        """Gone with all its devices once its last process is gone. May be called twice. Raises
        ClusterError.
        """
        self.hang_up()
        if self.sysfs is not None and self.sysfs >= 0:
            os.close(self.sysfs)
        self.sysfs = None
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
        if _libc.umount2(str(self.path).encode(), _MNT_DETACH):
            number = ctypes.get_errno()
            if number not in (errno.EINVAL, errno.ENOENT):
                raise ClusterError(
                    f"the namespace {self.name} cannot be removed: {os.strerror(number)}"
                )
        self.path.unlink(missing_ok=True)
