"""A machine of one's own for a test, and the listing of what is on it, to be compared before and
after.

``Machine`` is a set of namespaces (mount, network, PID, IPC, UTS) with empty folders for temporary
files and a home: what else happens on the real machine meanwhile is not in its listing, and what a
program leaves there is. Run as a program, this file prints the listing of where it runs, as JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

REPOSITORY = Path(__file__).resolve().parents[2]
PRIVATE = ("/tmp", "/var/tmp", "/var/lib", "/dev/shm", "/run", "/root", "/home")  # empty
COPIED = ("/etc",)
WORK = Path("/mnt/test")  # the test's own folder, as it is seen in there

Listing = dict[str, set[str]]

# What the kernel changes by itself.
_BPF = {"x86_64": 321, "aarch64": 280}[platform.machine()]  # the number of bpf(2)
_VOLATILE = (
    "debug/",
    "dev/",
    "fs/aio-nr",
    "fs/dentry-state",
    "fs/epoll",
    "fs/file-nr",
    "fs/inode-",
    "fs/quota",
    "kernel/ns_last_pid",
    "kernel/perf_event_max_sample_rate",
    "kernel/pty/nr",
    "kernel/random/",
    "kernel/sched_domain",
    "net/netfilter/nf_conntrack_count",
)


class Machine:
    """A context manager. ``folder`` is a folder of the real machine that is ``WORK`` in there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._first: subprocess.Popen[str] | None = None

    def __enter__(self) -> Machine:
        script = _furnished(self._folder)
        words = ["unshare", "--mount", "--net", "--pid", "--ipc", "--uts", "--fork", "--kill-child"]
        self._first = subprocess.Popen(
            [*words, "--mount-proc", "bash", "-euc", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._first.stdout is not None
        assert self._first.stdout.readline() == "ready\n", "no machine of our own could be made"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._first is not None
        self._first.kill()  # and so its child, PID 1 in there, and everything
        self._first.communicate(timeout=30)

    def argv(self, words: Sequence[str]) -> list[str]:
        """The command that runs ``words`` in there, in its ``WORK``."""
        assert self._first is not None
        (pid,) = children(self._first.pid)
        names = ["--mount", "--net", "--pid", "--ipc", "--uts", "--root"]
        return ["nsenter", f"--target={pid}", *names, "env", f"--chdir={WORK}", *words]

    def run(
        self, words: Sequence[str], limit: float = 300.0, **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end; ``limit`` in seconds."""
        argv = self.argv([*(f"{key}={value}" for key, value in env.items()), *words])
        return subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )

    def start(self, words: Sequence[str]) -> subprocess.Popen[str]:
        """Starts a command; its output is in files ``out`` and ``err`` of the folder."""
        with (self._folder / "out").open("w") as out, (self._folder / "err").open("w") as err:
            return subprocess.Popen(
                self.argv(words),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                text=True,
                start_new_session=True,
            )

    def listing(self) -> Listing:
        """What is on the machine now."""
        done = self.run([sys.executable, "-I", str(Path(__file__).resolve())], limit=60.0)
        assert done.returncode == 0, done.stderr
        return {name: set(found) for name, found in json.loads(done.stdout).items()}

    def left(self, before: Listing, limit: float = 90.0) -> list[str]:
        """What was not there ``before``, or is gone since, and stays so for ``limit`` seconds; []
        as soon as there is nothing. BPF objects are the real machine's: those of other runs there
        are waited for, longer.
        """
        began = time.monotonic()
        rest: set[str] | None = None
        while True:
            now = changes(before, self.listing())
            if _kubernetes_here():
                now = {item for item in now if not item.startswith("bpf ")}
            rest = now if rest is None else rest & now
            waits = limit if any(not item.startswith("bpf ") for item in rest) else 8 * limit
            if not rest or time.monotonic() > began + waits:
                return sorted(rest)
            time.sleep(0.5)


def _furnished(folder: Path) -> str:
    """The shell program of the machine's first process.

    Mounts of others go first: the kernel would take them away whenever their owner removes the
    folder below one. What the programs need and an empty folder would hide is put back there.
    """
    needed = {
        str(path)
        for path in (REPOSITORY, Path(sys.prefix).resolve(), Path(sys.base_prefix).resolve())
    }
    hidden = [
        path
        for path in sorted(needed)
        if any(Path(path).is_relative_to(private) for private in PRIVATE)
    ]
    kept = {f"{top}{below}" for top in ("/proc", "/sys", "/dev") for below in ("", "/*")}
    for path in (*needed, str(folder.resolve())):
        kept |= {shlex.quote(str(at)) for at in (Path(path), *Path(path).parents)}
        kept.add(f"{shlex.quote(path)}/*")
    lines = [
        f"findmnt -rno TARGET | tac | while read -r at; do case $at in {'|'.join(sorted(kept))});;"
        ' *) umount -l "$at" 2>&- || :;; esac; done',
        "mount -t tmpfs none /mnt",
        "mkdir /mnt/test",
        f"mount --bind {shlex.quote(str(folder))} /mnt/test",
    ]
    for number, path in enumerate(hidden):
        lines.append(f"mkdir /mnt/{number} && mount --rbind {shlex.quote(path)} /mnt/{number}")
    lines += [
        f"mkdir /mnt{path} && cp -a {path}/. /mnt{path} && mount --bind /mnt{path} {path}"
        for path in COPIED
    ]
    lines += [f"mount -t tmpfs none {private}" for private in PRIVATE]
    for number, path in enumerate(hidden):
        lines.append(
            f"mkdir -p {shlex.quote(path)} && mount --rbind /mnt/{number} {shlex.quote(path)}"
        )
    lines += ["ip link set lo up", "chmod 1777 /tmp /var/tmp /dev/shm", "echo ready"]
    return "\n".join([*lines, "while read -r _; do :; done"])  # bash reaps what it inherits


def changes(before: Mapping[str, set[str]], after: Mapping[str, set[str]]) -> set[str]:
    """What differs, with a word for which way."""
    found = set()
    for name in before.keys() | after.keys():
        old, new = before.get(name, set()), after.get(name, set())
        found |= {f"{name} left: {item}" for item in new - old}
        if name != "bpf":  # the real machine's: what others remove of theirs
            found |= {f"{name} gone: {item}" for item in old - new}
    return found


def _kubernetes_here() -> bool:
    """Does a node of Kubernetes run on this machine? Its BPF objects come and go, and cannot be
    told from those of the lab: both have the names that Cilium gives."""
    for path in Path("/proc").glob("[0-9]*/comm"):
        try:
            if path.read_text().strip() in ("kubelet", "cilium-agent"):
                return True
        except OSError:  # ended meanwhile
            continue
    return False


def children(pid: int) -> list[int]:
    """The children of a process; [] when it is gone."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def descendants(pid: int) -> list[int]:
    """All processes below ``pid``, nearest first."""
    found: list[int] = []
    rest = [pid]
    while rest:
        found += (below := children(rest.pop(0)))
        rest += below
    return found


def here() -> dict[str, list[str]]:
    """The listing of where this process runs."""
    parts: dict[str, Callable[[], list[str]]] = {
        "process": _processes,
        "mount": _mounts,
        "file": _files,
        "network": _network,
        "sysctl": _sysctls,
        "bpf": _bpf,
        "cgroup": _cgroups,
    }
    return {name: part() for name, part in parts.items()}


def _processes() -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            name, state = (
                (entry / "comm").read_text().strip(),
                (entry / "stat").read_text().rpartition(")")[2].split()[0],
            )
        except OSError:
            continue
        if int(entry.name) not in (1, os.getpid(), os.getppid()) and state not in "ZX":
            found.append(f"{entry.name} {name}")
    return found


def _mounts() -> list[str]:
    lines = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return [f"{words[4]} {words[words.index('-') + 1]}" for words in lines]


def _files() -> list[str]:
    """Each file with its size and time, each folder by its name; the repository and Python are not
    ours to list.
    """
    found = []
    ours = (*PRIVATE, *COPIED)
    mounted = {words.split()[0] for words in _mounts()} - set(ours)
    for private in (*ours, "/sys/fs/bpf"):
        for folder, folders, files in os.walk(private):
            folders[:] = [
                name
                for name in folders
                if f"{folder}/{name}" not in mounted and name != "__pycache__"
            ]
            found += [f"{folder}/{name}/" for name in folders]
            for name in files:
                path = f"{folder}/{name}"
                try:
                    state = os.lstat(path)
                except OSError:
                    continue
                found.append(f"{path} {state.st_mode:o} {state.st_size} {state.st_mtime_ns}")
    return found


def _network() -> list[str]:
    commands = [
        "ip -o link",
        "ip -o address",
        "ip route show table all",
        "ip -6 route show table all",
        "ip rule",
        "ip -6 rule",
        "ip xfrm state",
        "ip netns",
        "nft -s list ruleset",
        "ipset list -name",
    ]
    if any(
        Path(f"/proc/net/{name}").exists() and Path(f"/proc/net/{name}").read_text()
        for name in ("ip_tables_names", "ip6_tables_names")
    ):
        commands += ["iptables-legacy-save", "ip6tables-legacy-save"]
    found = []
    for command in commands:
        done = subprocess.run(
            command.split(), capture_output=True, text=True, timeout=20, check=False
        )
        found += [
            f"{command}: {line}" for line in done.stdout.splitlines() if not line.startswith("#")
        ]
    return found


def _sysctls() -> list[str]:
    found = []
    for folder, _, files in os.walk("/proc/sys"):
        for name in files:
            key = f"{folder}/{name}".removeprefix("/proc/sys/")
            of_device = re.match(
                r"net/ipv[46]/(?:conf|neigh)/([^/]+)/", key
            )  # a device is listed itself
            if not key.startswith(_VOLATILE) and (
                of_device is None or of_device[1] in ("all", "default", "lo")
            ):
                try:
                    found.append(
                        f"{key} = {Path('/proc/sys', key).read_text(errors='replace').strip()}"
                    )
                except OSError:
                    continue
    return found


def _bpf() -> list[str]:
    """Of the whole real machine: they belong to no namespace.

    Only their numbers. Whoever opens an array of programs by its number (bpftool does) while the
    kernel still clears it makes the kernel clear it a second time: prog_array_map_clear() in
    kernel/bpf/arraymap.c takes a reference and queues work that is queued already, so that nobody
    ever gives that reference back, and the map stays until the machine is restarted.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    found = []
    for kind, command in (("prog", 11), ("map", 12), ("link", 31)):  # BPF_*_GET_NEXT_ID
        attributes = (ctypes.c_uint32 * 32)()
        while libc.syscall(_BPF, command, attributes, ctypes.sizeof(attributes)) == 0:
            attributes[0] = attributes[1]  # start_id, next_id
            found.append(f"{kind} {attributes[0]}")
    return found


def _cgroups() -> list[str]:
    """All below our own one, where a program that knows nothing of others makes them, and what has
    our name anywhere.
    """
    top = Path("/sys/fs/cgroup")
    own = [
        line.rpartition(":")[2].strip("/")
        for line in Path("/proc/self/cgroup").read_text().splitlines()
    ]
    trees = [top, *(path for path in top.iterdir() if path.is_dir())]
    roots = {str(tree / name) for name in own if name for tree in trees}
    found = set()
    for folder, folders, _ in os.walk(top):  # which passes over what goes meanwhile
        inside = any(folder == root or folder.startswith(f"{root}/") for root in roots)
        found |= {f"{folder}/{name}" for name in folders if inside or "cnibench" in name}
    return sorted(found)


if __name__ == "__main__":
    json.dump(here(), sys.stdout)
