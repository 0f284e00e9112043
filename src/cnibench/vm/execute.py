"""Carries a command into the VM and waits for it: output comes out, signals go in, and every way to
fail becomes a clear error.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cnibench.errors import ClusterError, Interrupted, LimitError
from cnibench.system.guest import MARK
from cnibench.system.process import Process
from cnibench.vm import frames
from cnibench.vm.accel import Accelerator
from cnibench.vm.initramfs import RUN_TAG, SHARE
from cnibench.vm.kernel import Kernel
from cnibench.vm.machine import CONSOLE, ERRORS, MORE_MEMORY, Size, started

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_FULL = 1 << 20  # bytes: a file system with less room than this cannot take a sample's raw output


@dataclass(frozen=True)
class Limits:
    """Seconds: until the guest is up, without a sign of life, from a signal to the end, and for the
    whole command (0: none).

    Far above what is usual (7 s until up under emulation on an idle machine), so that a loaded
    machine is no failure.
    """

    up: float = 300.0
    silent: float = 180.0
    ending: float = 120.0
    total: float = 0.0


def carry(
    argv: Sequence[str],
    run_dir: Path,
    kernel: Kernel,
    accel: Accelerator,
    *,
    size: Size | None = None,
    limits: Limits | None = None,
    append: str = "",
) -> int:
    """Runs ``argv`` in a VM with this kernel and returns its exit status; nothing is left running.

    ``run_dir`` exists and is the one folder where the guest's writes reach the host; the VM's logs
    come to its folder ``vm``.
    ``append`` goes to the kernel's command line. SIGINT, SIGTERM and SIGHUP are passed in to the
    command; a second one ends the VM. Call it from the main thread. Raises MissingError,
    Interrupted (before it was up), LimitError (not up, silent, too long), ClusterError (panic, qemu
    ended).
    """
    run_dir = run_dir.resolve()
    with (
        _caught() as signals,
        started(kernel, accel, run_dir, size or Size.usual(), append) as (process, port),
    ):
        waiter = _Waiter(process, port, signals, limits or Limits(), run_dir)
        waiter.until_up()
        waiter.send(frames.JOB, json.dumps(_job(argv, run_dir, accel)).encode())
        return waiter.until_exit()


def _job(argv: Sequence[str], run_dir: Path, accel: Accelerator) -> dict[str, Any]:
    # pydantic looks for plugins in the metadata of every installed package: hundreds of files over
    # 9p, and we have none
    env = {
        **os.environ,
        MARK: accel.name,
        "PYTHONUNBUFFERED": "1",
        "PYDANTIC_DISABLE_PLUGINS": "__all__",
    }
    return {
        "argv": list(argv),
        "cwd": os.getcwd(),
        "env": env,
        "run_dir": str(run_dir),
        "run_tag": RUN_TAG,
        "run_options": f"cache=mmap,{SHARE}",
    }


@contextmanager
def _caught() -> Iterator[int]:
    """A file descriptor that gives the number of each signal as a byte, while the block runs."""
    near, far = os.pipe()
    os.set_blocking(far, False)
    previous: Mapping[int, Any] = {
        number: signal.signal(number, lambda *_: None) for number in _SIGNALS
    }
    before = signal.set_wakeup_fd(far)
    try:
        yield near
    finally:
        signal.set_wakeup_fd(before)
        for number, handler in previous.items():
            signal.signal(number, handler)
        os.close(near)
        os.close(far)


class _Waiter:
    """Reads the port until something ends it."""

    def __init__(
        self, process: Process, port: socket.socket, signals: int, limits: Limits, run_dir: Path
    ) -> None:
        self._process, self._port, self._signals, self._limits, self._run_dir = (
            process,
            port,
            signals,
            limits,
            run_dir,
        )
        self._reader = frames.Reader()
        self._begin = self._heard = time.monotonic()
        self._asked = 0.0  # when the first signal went in
        self._asked_for = 0

    def send(self, kind: bytes, payload: bytes) -> None:
        try:
            self._port.sendall(frames.pack(kind, payload))
        except OSError:
            raise self._ended() from None

    def until_up(self) -> None:
        """Until the guest's first frame; a signal meanwhile ends the VM at once, since nothing is
        measured yet.
        """
        for kind, payload in self._frames(self._limits.up):
            if kind == frames.UP:
                return
            if kind == frames.SIGNAL:
                raise Interrupted(
                    "interrupted while the VM started",
                    f"to go on: cnibench run --resume {self._run_dir}",
                )
            if kind == frames.FAILED:
                raise self._failed(payload)

    def until_exit(self) -> int:
        for kind, payload in self._frames(0):
            if kind == frames.OUT:
                _write(sys.stdout.fileno(), payload)
            elif kind == frames.ERR:
                _write(sys.stderr.fileno(), payload)
            elif kind == frames.EXIT:
                return self._finished(int(payload))
            elif kind == frames.FAILED:
                raise self._failed(payload)
            elif kind == frames.SIGNAL:
                if self._asked:
                    return 128 + self._asked_for  # the second time: at once
                self._asked, self._asked_for = time.monotonic(), int(payload)
                self.send(frames.SIGNAL, payload)
        raise AssertionError("frames end by an exception")

    def _frames(self, limit: float) -> Iterator[tuple[bytes, bytes]]:
        """Frames of the guest, and each signal that we got as a SIGNAL frame. Raises when a limit
        is reached or qemu ends.
        """
        poller = select.poll()
        poller.register(self._port, select.POLLIN)
        poller.register(self._signals, select.POLLIN)
        while True:
            ready = poller.poll(250)
            for fd, _event in ready:
                if fd == self._signals:
                    for number in os.read(fd, 64):
                        if number in _SIGNALS:
                            yield frames.SIGNAL, str(number).encode()
                    continue
                piece = self._read()
                self._heard = time.monotonic()
                yield from self._reader.feed(piece)
            if not ready and self._process.poll() is not None:
                raise self._ended()
            self._check(limit)

    def _read(self) -> bytes:
        try:
            piece = self._port.recv(65536)
        except ConnectionError:
            piece = b""
        if not piece:
            raise self._ended()
        return piece

    def _check(self, limit: float) -> None:
        now = time.monotonic()
        if limit and now - self._begin > limit:
            raise LimitError(
                f"the VM was not up within {limit:.0f} s; {self._last_words()}", self._look()
            )
        if not limit and now - self._heard > self._limits.silent:
            raise LimitError(
                f"the VM gave no sign of life for {self._limits.silent:.0f} s;"
                f" {self._last_words()}",
                self._look(),
            )
        if self._asked and now - self._asked > self._limits.ending:
            raise LimitError(
                f"the command in the VM did not end within {self._limits.ending:.0f} s of the"
                " signal",
                self._look(),
            )
        if self._limits.total and now - self._begin > self._limits.total:
            raise LimitError(
                f"the run in the VM did not end within {self._limits.total:.0f} s",
                "the finished blocks are kept: use --resume",
            )

    def _finished(self, status: int) -> int:
        """The command's status; what only the host can tell about a failure is added on stderr."""
        if status not in (0, 130):
            if shutil.disk_usage(self._run_dir).free < _FULL:
                raise ClusterError(
                    f"no space is left on the file system of {self._run_dir}",
                    f"free disk space, then: cnibench run --resume {self._run_dir}",
                )
            if self._out_of_memory():
                raise ClusterError(
                    "the VM ran out of memory",
                    f"{MORE_MEMORY} cnibench run --resume {self._run_dir}",
                )
        elif self._out_of_memory():
            _write(
                sys.stderr.fileno(),
                f"warning: the VM ran out of memory and its kernel killed a program; {MORE_MEMORY}\n".encode(),  # noqa: E501
            )
        return status

    def _out_of_memory(self) -> bool:
        return "Out of memory" in self._console() or "oom-kill:" in self._console()

    def _ended(self) -> ClusterError:
        """qemu is gone, or has closed the port: why."""
        try:
            status = f"status {self._process.wait(10)}"
        except LimitError:
            status = "closed its port"
        console = self._console()
        if self._out_of_memory():
            return ClusterError("the VM ran out of memory", f"{MORE_MEMORY}; {self._look()}")
        if "Kernel panic" in console:
            line = next(line for line in console.splitlines() if "Kernel panic" in line)
            return ClusterError(
                f"the VM's kernel panicked: {line.split('] ', 1)[-1].strip()}", self._look()
            )
        return ClusterError(
            f"qemu ended ({status}) before the run did: {self._last_words()}", self._look()
        )

    def _failed(self, payload: bytes) -> ClusterError:
        words = payload.decode(errors="replace").strip().splitlines() or ["(nothing)"]
        return ClusterError(f"the VM cannot run the command: {words[-1]}", self._look())

    def _console(self) -> str:
        return _tail(self._run_dir / "vm" / CONSOLE, 1 << 20)

    def _last_words(self) -> str:
        said = _tail(self._run_dir / "vm" / ERRORS, 4096).strip() or self._console().strip()
        return f"its last words: {said.splitlines()[-1].strip()}" if said else "it said nothing"

    def _look(self) -> str:
        return (
            f"the kernel's log is in {self._run_dir / 'vm' / CONSOLE}; --kernel host measures"
            " without a VM"
        )


def _tail(file: Path, size: int) -> str:
    try:
        return file.read_bytes()[-size:].decode(errors="replace")
    except OSError:
        return ""


def _write(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
