"""The unshared tree: mount, network, PID, IPC and UTS namespaces of our own, gone as soon as their
first process is gone.

Four processes: *outer* (the one the user started: it only waits and passes signals on), *middle*
(unshares), *init* (PID 1 of the tree: reaps orphans, watches for the outer's end) and *main* (PID
2: does everything). The kernel kills all of a PID namespace when its PID 1 ends
(pid_namespaces(7)), and every namespace, device and mount in the tree goes with its last process.
PID 1 ends when main ends, when middle dies (parent-death signal) and when outer dies (end of file
on a pipe that only outer holds open).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from cnibench.clusters.lab.namespaces.root import own_root
from cnibench.errors import CnibenchError, MissingError
from cnibench.system.namespaces import CLONE_NEWNET, CLONE_NEWPID

HOME = Path("/run/cnibench")  # a private tmpfs: on the host this folder never exists
NETNS = HOME / "netns"
BPF = HOME / "bpf"
TMP = HOME / "tmp"
# set for all programs in a tree; its value says what the tree may do: 'root' or 'user'
_HERE = "CNIBENCH_TREE"

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
CLONE_NEWUSER = 0x10000000
_MS_BIND, _MS_REC, _MS_PRIVATE = 4096, 16384, 1 << 18
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 2, 4, 8
_PR_SET_PDEATHSIG = 1
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_libc = ctypes.CDLL(None, use_errno=True)


def kind() -> str:
    """``'root'``: in a tree made by root; ``'user'``: in one within a user namespace; ``''``: in
    none.
    """
    return os.environ.get(_HERE, "")


def lacks() -> str:
    """What a tree in a user namespace cannot do ('' in a tree of root), for the report."""
    if kind() != "user":
        return ""
    return (
        "without root: perf cannot sample the kernel, eBPF programs cannot be loaded, socket buffer"
        " limits stay the host's"
    )


def carry(main: Callable[[], int]) -> int:
    """Runs ``main`` as PID 2 of a new tree and returns its exit status (128 + N when signal N ended
    it).

    Call it from the only thread of a process. SIGINT, SIGTERM, SIGHUP and SIGQUIT to this process
    are passed on to ``main``'s, where SIGINT and SIGTERM raise KeyboardInterrupt. Raises
    MissingError when this machine lets us make no tree.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    watch, alive = os.pipe()  # nobody writes: the end of file tells that outer is gone
    report, failed = os.pipe()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
    middle = os.fork()
    if middle == 0:
        os.close(alive)
        os.close(report)
        _in_child(lambda: _middle(main, watch, failed), failed)
    os.close(watch)
    os.close(failed)
    try:
        status = _attend(middle, before)
    finally:
        os.close(alive)
    with os.fdopen(report, encoding="utf-8") as file:
        message, _, remedy = file.read().partition("\0")
    if message:
        raise MissingError(message, remedy)
    return status


def _middle(main: Callable[[], int], watch: int, failed: int) -> int:
    os.setpgid(0, 0)  # the terminal's Ctrl-C then reaches outer alone, and main once
    unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS)
    _die_with_parent()  # after unshare: a change of credentials clears it
    init = os.fork()
    if init == 0:
        _in_child(lambda: _init(main, watch, failed), failed)
    os.close(watch)
    os.close(failed)
    return _attend(init, ())


def _init(main: Callable[[], int], watch: int, failed: int) -> int:
    _die_with_parent()
    _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    _furnish()
    _private_tmp()
    child = os.fork()
    if child == 0:
        for end in (watch, failed):
            os.close(end)
        _in_child(lambda: _main(main))
    os.close(failed)
    return _attend(child, (), watch)


def _attend(child: int, mask: Iterable[int], watch: int | None = None) -> int:
    """Waits for ``child`` and passes signals on to it; its status. Reaps every other child on the
    way, and gives up when ``watch`` ends.

    Called with the signals blocked; ``mask`` is what is blocked from here on. Each signal also
    writes a byte to a pipe that is waited on (signal.set_wakeup_fd): one that comes just before a
    wait begins is not slept over, as it would be with a plain waitpid.
    """
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    heard = [
        number for number in _PASSED_ON if signal.getsignal(number) != signal.SIG_IGN
    ]  # nohup's hang-up stays ignored
    previous = {
        number: signal.signal(number, lambda got, _frame: _pass_on(child, got)) for number in heard
    }
    previous[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    descriptor = signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        while True:
            while True:  # first a look: the child may have ended before the handler was there
                pid, status = os.waitpid(child if watch is None else -1, os.WNOHANG)
                if pid == child:
                    return _status(status)
                if pid == 0:
                    break
            ready = select.select([woken, watch] if watch is not None else [woken], [], [])[0]
            if watch in ready:
                return 128 + signal.SIGKILL
            os.read(woken, 4096)
    finally:
        signal.set_wakeup_fd(descriptor)
        for number, handler in previous.items():
            signal.signal(number, handler or signal.SIG_DFL)
        os.close(woken)
        os.close(wake)


def _main(main: Callable[[], int]) -> int:
    _die_with_parent()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
    return main()


def _in_child(work: Callable[[], int], failed: int | None = None) -> None:
    """The whole life of a forked process; never returns."""
    status = 1
    try:
        status = work()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except KeyboardInterrupt:
        status = 128 + signal.SIGINT
    except CnibenchError as error:
        if failed is None:
            print(f"error: {error.message}", file=sys.stderr)
            status = error.exit_code
        else:
            _refuse(failed, error.message, error.remedy)
    except OSError as error:
        if failed is None:
            traceback.print_exc()
        else:  # the tree itself could not be made
            _refuse(
                failed,
                f"the lab's namespaces cannot be made: {error.strerror}",
                "'cnibench doctor' says what the lab needs",
            )
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _refuse(failed: int, message: str, remedy: str) -> None:
    with contextlib.suppress(OSError):
        os.write(failed, f"{message}\0{remedy}".encode())


def _pass_on(child: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, number)


def _status(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


def _die_with_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def unshare(flags: int) -> None:
    """unshare(2), within a new user namespace when we are not root. Raises MissingError."""
    user, group = os.geteuid(), os.getegid()
    if user:
        flags |= CLONE_NEWUSER
    if _libc.unshare(flags):
        raise _no_namespaces(ctypes.get_errno(), bool(user))
    if user:
        try:
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"0 {user} 1")
            Path("/proc/self/gid_map").write_text(f"0 {group} 1")
        except OSError as error:
            raise _no_namespaces(error.errno or 0, True) from None
    os.environ[_HERE] = "user" if user else kind() or "root"
    if flags & CLONE_NEWNS:
        if kind() == "root":
            own_root()
        _mount(
            "none", "/", "", _MS_REC | _MS_PRIVATE
        )  # before anything is mounted: what init shares would come out at the machine


def _no_namespaces(number: int, user: bool) -> MissingError:
    why = errno.errorcode.get(number, str(number))
    if not user:
        return MissingError(
            f"new namespaces cannot be created here ({why})",
            "run on the machine itself, or in a privileged container",
        )
    switches = {
        "/proc/sys/kernel/unprivileged_userns_clone": "1",
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "0",
    }
    for path, wanted in switches.items():
        if Path(path).exists() and Path(path).read_text().strip() != wanted:
            key = path.removeprefix("/proc/sys/").replace("/", ".")
            return MissingError(
                f"user namespaces are switched off ({key})",
                f"run as root, or: sudo sysctl -w {key}={wanted}",
            )
    return MissingError(
        f"no user namespace can be made here ({why})",
        "run as root, or: sudo sysctl -w user.max_user_namespaces=10000",
    )


def _mount(source: str, target: str, kind: str, flags: int = 0, data: str = "") -> None:
    if _libc.mount(
        source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode()
    ):
        number = ctypes.get_errno()
        raise MissingError(
            f"{target} cannot be mounted in a new namespace"
            f" ({errno.errorcode.get(number, number)})",
            "run on the machine itself: some containers forbid it",
        )


def _furnish() -> None:
    """Mounts and devices of a tree that was just unshared: /sys of its network, /run/cnibench, lo
    up.
    """
    _private_run()
    kept = {
        path: os.open(path, os.O_PATH)
        for path in ("/sys/fs/cgroup", "/sys/kernel/tracing", "/sys/kernel/debug")
        if os.path.isdir(path)
    }
    _mount("sysfs", "/sys", "sysfs", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    for path, fd in kept.items():
        with contextlib.suppress(MissingError):  # a tracing file system that stays empty is no harm
            _mount(f"/proc/self/fd/{fd}", path, "", _MS_BIND | _MS_REC)
        os.close(fd)
    with contextlib.suppress(MissingError):  # eBPF profiles say so themselves when they cannot pin
        _mount("bpf", str(BPF), "bpf", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    os.environ["XTABLES_LOCKFILE"] = str(
        HOME / "xtables.lock"
    )  # never wait for, or hold up, the host's iptables
    loopback_up()


def _private_tmp() -> None:
    """Temporary files go to the tree's own tmpfs, and with it: whatever kills us leaves none on the
    host.
    """
    TMP.mkdir()
    os.environ["TMPDIR"] = str(TMP)
    tempfile.tempdir = None  # the host's, as this process may have found it before


def _private_run() -> None:
    """/run as it was, plus a private /run/cnibench: the folder is never made on the host."""
    old = os.open("/run", os.O_PATH | os.O_DIRECTORY)
    entries = [
        (entry.name, entry.is_symlink(), entry.is_dir(follow_symlinks=False))
        for entry in os.scandir("/run")
    ]
    links = {name: os.readlink(f"/run/{name}") for name, link, _ in entries if link}
    _mount("tmpfs", "/run", "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755")
    for name, link, folder in entries:
        if name == HOME.name:
            continue
        if link:
            os.symlink(links[name], f"/run/{name}")
            continue
        if folder:
            os.mkdir(f"/run/{name}")
        else:
            Path(f"/run/{name}").touch()
        with contextlib.suppress(MissingError):  # what this user may not see stays empty
            _mount(f"/proc/self/fd/{old}/{name}", f"/run/{name}", "", _MS_BIND | _MS_REC)
    os.close(old)
    for path in (HOME, NETNS, BPF):
        path.mkdir()


def loopback_up() -> None:
    """Sets lo of the calling thread's network namespace up."""
    import fcntl
    import socket
    import struct

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sH14x", b"lo", 0x1 | 0x40)  # IFF_UP | IFF_RUNNING
        fcntl.ioctl(sock, 0x8914, request)  # SIOCSIFFLAGS


@contextlib.contextmanager
def entered() -> Iterator[None]:
    """The calling thread (and what it starts) in a tree's mount and network namespaces, and back
    again: for tests and short probes.

    There is no PID namespace: programs are ended by their own parent-death signal. Needs root.
    Raises MissingError.
    """
    homes = [os.open(f"/proc/thread-self/ns/{name}", os.O_RDONLY) for name in ("mnt", "net")]
    root, folder = os.open("/", os.O_PATH | os.O_DIRECTORY), os.getcwd()
    before = {key: os.environ.get(key) for key in (_HERE, "XTABLES_LOCKFILE")}
    if os.geteuid():
        raise MissingError("entering a tree in place needs root", "run as root")
    unshare(CLONE_NEWNS | CLONE_NEWNET)
    try:
        _furnish()
        yield
    finally:
        for fd in homes:
            _libc.setns(fd, 0)
            os.close(fd)
        os.fchdir(
            root
        )  # joining a mount namespace goes to its root, and that of a chroot is below it
        os.chroot(".")
        os.close(root)
        os.chdir(folder)
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value
