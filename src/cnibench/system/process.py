"""Programs as child processes: each in a process group of its own, each wait with a limit, none
left behind.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import resource
import select
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, cast

from cnibench.errors import ClusterError, LimitError, MeasureError, MissingError
from cnibench.system.files import output_file
from cnibench.system.guest import patience
from cnibench.system.log import shown

_log = logging.getLogger(__name__)
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


_PRIORITY = os.getpriority(os.PRIO_PROCESS, 0)
_AHEAD = -10  # nice value
_KILLED = 60.0  # s
_MOST_SAID = 1 << 16  # bytes
_CHUNK = 1 << 16  # bytes
MOST_OUTPUT = 64 << 20  # bytes that a program may print, on each of its streams


_refused: dict[str, None] = {}


def ahead() -> None:
    """From now on this thread, and those that it starts, get a CPU before the programs that we
    start, where we may: hundreds of loaded connections would keep us from making the rest of them
    for minutes, and from opening a window in time. It sleeps within windows.
    """
    wanted = min(_PRIORITY, _AHEAD)
    try:
        os.setpriority(os.PRIO_PROCESS, 0, wanted)
    except PermissionError as error:
        _refuse("cnibench itself", wanted, error)


def priority_refused() -> list[str]:
    """Which priorities this process asked for and did not get, in words."""
    return list(_refused)


def _refuse(who: str, wanted: int, error: OSError) -> None:
    now = os.getpriority(os.PRIO_PROCESS, 0)
    _refused[f"nice value of {who}: {wanted} was asked for, {now} ({error.strerror})"] = None


def _may_restore() -> bool:
    """Whether a child may have the priority that we were given; we note where it may not."""
    now = os.getpriority(os.PRIO_PROCESS, 0)
    if now <= _PRIORITY:
        return True
    try:  # somebody has reniced us
        os.setpriority(os.PRIO_PROCESS, 0, _PRIORITY)
    except PermissionError as error:
        _refuse("the programs that cnibench starts", _PRIORITY, error)
        return False
    os.setpriority(os.PRIO_PROCESS, 0, now)
    return True


def _child(more: Callable[[], None] = lambda: None) -> Callable[[], None]:
    """What a child does before it becomes another program. It must not outlive us, whatever kills
    us (prctl(2), PR_SET_PDEATHSIG), and has the priority that we were given.
    """
    restore = _may_restore()

    def as_child() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if restore:
            os.setpriority(os.PRIO_PROCESS, 0, _PRIORITY)
        more()

    return as_child


def ending(status: int) -> str:
    """How a program ended, in words; ``status`` as subprocess gives it."""
    if status >= 0:
        return f"ended with {status}"
    known = {one.value: one.name for one in signal.Signals}
    return f"was killed by {known.get(-status, f'signal {-status}')}"


@dataclass(frozen=True)
class Done:
    """A finished program. ``seconds`` is wall time."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str
    seconds: float

    def words(self) -> str:
        """The command line and the last lines that it printed, for an error message."""
        said = (self.stderr.strip() or self.stdout.strip()).splitlines()[-4:]
        return f"{shown(self.argv)} {ending(self.returncode)}: " + (
            " | ".join(said) or "(no output)"
        )


def too_much(argv: Sequence[str], most: int) -> MeasureError:
    """The error for a program that printed more than ``most`` bytes."""
    return MeasureError(
        f"{argv[0]} printed more than {most >> 20} MiB and was ended",
        "see what it says in the sample's raw folder",
    )


class Process:
    """A running program; leaving its ``with`` block kills its whole process group.

    ``files`` is where its output goes: the kernel ends it (RLIMIT_FSIZE) when one has ``most``
    bytes.
    """

    def __init__(
        self,
        argv: Sequence[str],
        popen: subprocess.Popen[bytes],
        files: Sequence[Path] = (),
        most: int = MOST_OUTPUT,
    ) -> None:
        self.argv = tuple(argv)
        self._popen = popen
        self._outputs = files
        self._most = most
        self._began = time.monotonic()
        self._logged = False
        _log.debug("started, process %d: %s", popen.pid, shown(argv))

    @property
    def pid(self) -> int:
        return self._popen.pid

    def poll(self) -> int | None:
        """Exit status, or None while it runs. Raises MeasureError when it was ended because it
        printed too much.
        """
        return self._checked(self._popen.poll())

    def watch(self, seconds: float) -> None:
        """Sleeps that long, or until it ends. Nothing is polled, so that nothing disturbs a
        window.
        """
        if seconds <= 0 or self.poll() is not None:
            return
        descriptor = os.pidfd_open(self.pid)
        try:
            waiter = select.poll()
            waiter.register(descriptor, select.POLLIN)
            waiter.poll(seconds * 1000)
        finally:
            os.close(descriptor)

    def wait(self, timeout: float) -> int:
        """Exit status. Raises LimitError after ``timeout`` seconds (more under emulation); the
        program is then killed.

        MeasureError when it was ended because it printed too much.
        """
        try:
            status = self._popen.wait(timeout * patience())
        except subprocess.TimeoutExpired:
            self.kill()
            raise LimitError(f"{self.argv[0]} did not end within {timeout:.0f} s") from None
        self._checked(status)
        return status

    def _checked(self, status: int | None) -> int | None:
        self._ended(status)
        if status is not None:  # SIGXFSZ, or whatever a shell around it makes of that
            for path in self._outputs:
                # a file that is gone has no size
                with contextlib.suppress(FileNotFoundError):
                    if os.stat(path).st_size >= self._most:
                        raise too_much(self.argv, self._most)
        return status

    def _ended(self, status: int | None) -> None:
        if status is not None and not self._logged:
            self._logged = True
            seconds = time.monotonic() - self._began
            _log.debug("process %d ended with %d after %.3f s", self.pid, status, seconds)

    def stopped(self) -> bool:
        """Whether a signal has stopped it; False once it is reaped."""
        try:
            return os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return False

    def interrupt(self) -> None:
        """SIGINT to the group: perf and tcpdump write their files at it."""
        self._signal(signal.SIGINT)

    def kill(self) -> None:
        """Ends the whole group at once and reaps the leader. Raises LimitError when the kernel does
        not let it go.
        """
        self._signal(signal.SIGKILL)
        try:
            self._ended(self._popen.wait(_KILLED * patience()))
        except subprocess.TimeoutExpired:
            raise LimitError(
                f"{self.argv[0]} (process {self.pid}) is still there {_KILLED:.0f} s after it was"
                " killed",
                f"see what it waits for: cat /proc/{self.pid}/stack",
            ) from None

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self._popen.pid, number)
        except ProcessLookupError:
            pass

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()


def spawn(
    argv: Sequence[str],
    *,
    stdout: Path | None = None,
    stderr: Path | None = None,
    stdin: Path | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    pass_fds: Sequence[int] = (),
    most: int = MOST_OUTPUT,
) -> Process:
    """Starts a program in the background, its output in files (or nowhere). Raises MissingError
    when there is no such program.

    One whose output goes to files is ended when any file that it writes has ``most`` bytes.
    """
    outputs = [path for path in (stdout, stderr) if path is not None]

    def limit() -> None:
        if outputs:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    files: list[IO[bytes]] = []

    def target(path: Path | None, mode: str) -> IO[bytes] | int:
        if path is None:
            return subprocess.DEVNULL
        files.append(os.fdopen(output_file(path), mode) if mode == "wb" else path.open(mode))
        return files[-1]

    try:
        popen = subprocess.Popen(
            list(argv),
            stdin=target(stdin, "rb"),
            stdout=target(stdout, "wb"),
            stderr=target(stderr, "wb"),
            env=None if env is None else {**os.environ, **env},
            cwd=cwd,
            process_group=0,
            preexec_fn=_child(limit),
            pass_fds=pass_fds,
        )
    except FileNotFoundError:
        raise _no_program(argv[0]) from None
    finally:
        for file in files:
            file.close()
    return Process(argv, popen, outputs, most)


class Errors:
    """What a program says on its standard error, in a file without a name: it goes with us,
    whatever kills us.
    """

    def __init__(self) -> None:
        self.file = tempfile.TemporaryFile()  # noqa: SIM115 (closed by ``close``)

    def text(self) -> str:
        """The end of it, '' once it is closed."""
        try:
            size = os.fstat(
                self.file.fileno()
            ).st_size  # the program shares the file's position: it is not moved
            return (
                os.pread(self.file.fileno(), _MOST_SAID, max(0, size - _MOST_SAID))
                .decode(errors="replace")
                .strip()
            )
        except (OSError, ValueError):
            return ""

    def close(self) -> None:
        """May be called twice."""
        self.file.close()


def converse(argv: Sequence[str], errors: Errors) -> tuple[Process, IO[bytes], IO[bytes]]:
    """A program that we talk to: (process, its standard input, its standard output), unbuffered.
    Raises MissingError.
    """
    try:
        popen = subprocess.Popen(
            list(argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors.file,
            bufsize=0,
            process_group=0,
            preexec_fn=_child(),
        )
    except FileNotFoundError:
        raise _no_program(argv[0]) from None
    assert popen.stdin is not None
    assert popen.stdout is not None
    return Process(argv, popen), popen.stdin, popen.stdout


def run(
    argv: Sequence[str],
    *,
    timeout: float,
    input: str | None = None,
    check: bool = True,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Done:
    """Runs a program to its end. Raises ClusterError when ``check`` and it fails, LimitError after
    ``timeout`` seconds.

    MeasureError when it prints more than MOST_OUTPUT.
    """
    start = time.monotonic()
    try:
        popen = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL if input is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=None if env is None else {**os.environ, **env},
            cwd=cwd,
            process_group=0,
            preexec_fn=_child(),
        )
    except FileNotFoundError:
        raise _no_program(argv[0]) from None
    with Process(argv, popen):
        try:
            out, err = _communicate(
                popen, argv, b"" if input is None else input.encode(), start + timeout * patience()
            )
        except subprocess.TimeoutExpired:
            raise LimitError(f"{shown(argv)} did not end within {timeout:.0f} s") from None
        finally:
            for pipe in (popen.stdin, popen.stdout, popen.stderr):
                if pipe is not None:
                    pipe.close()
    done = Done(
        tuple(argv),
        popen.returncode,
        out.decode(errors="replace"),
        err.decode(errors="replace"),
        time.monotonic() - start,
    )
    if check and done.returncode != 0:
        raise ClusterError(done.words())
    return done


def _communicate(
    popen: subprocess.Popen[bytes], argv: Sequence[str], given: bytes, end: float
) -> tuple[bytes, bytes]:
    """What it prints until it has ended. Raises TimeoutExpired at ``end`` (monotonic), MeasureError
    when it prints too much.
    """
    assert popen.stdout is not None
    assert popen.stderr is not None
    kept = {popen.stdout: bytearray(), popen.stderr: bytearray()}
    left = memoryview(given)
    with selectors.DefaultSelector() as selector:
        for pipe in kept:
            selector.register(pipe, selectors.EVENT_READ)
        if popen.stdin is not None:
            os.set_blocking(popen.stdin.fileno(), False)
            selector.register(popen.stdin, selectors.EVENT_WRITE)
        while selector.get_map():
            rest = end - time.monotonic()
            if rest <= 0:
                raise subprocess.TimeoutExpired(list(argv), 0)
            for key, _ in selector.select(rest):
                pipe = cast(IO[bytes], key.fileobj)
                if pipe is popen.stdin:
                    try:
                        left = left[os.write(key.fd, left[:_CHUNK]) :] if left else left
                    except BrokenPipeError:
                        left = left[:0]
                    except BlockingIOError:
                        continue
                    if left:
                        continue
                elif data := os.read(key.fd, _CHUNK):
                    kept[pipe] += data
                    if len(kept[pipe]) > MOST_OUTPUT:
                        raise too_much(argv, MOST_OUTPUT)
                    continue
                selector.unregister(pipe)
                pipe.close()
    popen.wait(max(0.0, end - time.monotonic()))
    return bytes(kept[popen.stdout]), bytes(kept[popen.stderr])


def _no_program(name: str) -> MissingError:
    return MissingError(
        f"the program '{name}' is not installed", "'cnibench doctor' says what to install"
    )
