"""Program: runs commands in a Pod for cnibench, over its standard input and output. Standard
library only; sent over the connection.

Each message, both ways, is 8 bytes (two lengths, big endian), a header in JSON, and bytes. Asked:
{id, do: spawn|write|signal|read|ping}. Told: {id, pid}, then {id, stream: 1|2} with bytes, then
{id, end: status}; {id, error, missing}; {id, texts: lengths} with bytes.

One thread, asleep unless something happens, so that nothing of it disturbs a measured window: of
what a program prints the first part is sent at once, the rest at its end. All programs die with
this one (PR_SET_PDEATHSIG), and this one when its input ends or nothing has been heard for a while:
cnibench may have been killed, or the API server have gone.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import selectors
import signal
import struct
import subprocess
import sys
import time
from typing import Any, cast

SILENCE = 30.0  # s; cnibench says something more often than that
AT_ONCE = 1 << 18  # bytes of each stream that are sent as they come
PIPE = 1 << 20  # bytes: a program that prints much wakes us seldom
F_SETPIPE_SZ = 1031
LIBC = ctypes.CDLL(None)
PRIORITY = os.getpriority(os.PRIO_PROCESS, 0)
# nice value: hundreds of loaded connections must not keep us from starting the next program or
# opening a window
AHEAD = -10


def send(header: dict[str, Any], data: bytes = b"") -> None:
    text = json.dumps(header).encode()
    rest = memoryview(struct.pack(">II", len(text), len(data)) + text + data)
    while rest:
        rest = rest[os.write(1, rest) :]


def die_with_us() -> None:
    LIBC.prctl(1, signal.SIGKILL, 0, 0, 0)
    try:
        os.setpriority(os.PRIO_PROCESS, 0, PRIORITY)
    except OSError:
        pass  # somebody has reniced us
    signal.pthread_sigmask(signal.SIG_SETMASK, set())


class Program:
    def __init__(
        self, header: dict[str, Any], data: bytes, selector: selectors.BaseSelector
    ) -> None:
        self.id = header["id"]
        self.selector = selector
        self.sent = {1: 0, 2: 0}
        self.left = {1: header["most"], 2: header["most"]}  # bytes that it may still print
        self.kept: dict[int, list[bytes]] = {1: [], 2: []}
        self.talks = header.get("talks", False)  # its input stays open, and all is sent at once
        self.popen = subprocess.Popen(
            header["argv"],
            stdin=(subprocess.PIPE if header.get("input") or self.talks else subprocess.DEVNULL),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, **header.get("env", {})},
            preexec_fn=die_with_us,
            process_group=0,
        )
        self.input = memoryview(data)
        self.pipes = ((1, cast(Any, self.popen.stdout)), (2, cast(Any, self.popen.stderr)))
        for number, pipe in self.pipes:
            os.set_blocking(pipe.fileno(), False)
            try:
                fcntl.fcntl(pipe.fileno(), F_SETPIPE_SZ, PIPE)
            except OSError:
                pass  # the user's share of pipe memory is used up
            selector.register(pipe, selectors.EVENT_READ, (self.read, number, pipe))
        self.stdin = cast(Any, self.popen.stdin)
        if self.stdin:
            os.set_blocking(self.stdin.fileno(), False)
            self.waiting = True
            selector.register(self.stdin, selectors.EVENT_WRITE, (self.write, None, None))
        send({"id": self.id, "pid": self.popen.pid})

    def write(self, *_: Any) -> None:
        if self.stdin.closed:
            return
        try:
            self.input = (
                self.input[os.write(self.stdin.fileno(), self.input[:65536]) :]
                if self.input
                else self.input
            )
        except BrokenPipeError:
            self.input = memoryview(b"")
        except BlockingIOError:
            return
        if not self.input:
            self.selector.unregister(self.stdin)
            self.waiting = False
            if not self.talks:
                self.stdin.close()

    def more(self, data: bytes) -> None:
        """More of its input."""
        if not self.stdin or self.stdin.closed:
            return
        self.input = memoryview(bytes(self.input) + data)
        if not self.waiting:
            self.waiting = True
            self.selector.register(self.stdin, selectors.EVENT_WRITE, (self.write, None, None))

    def read(self, number: int, pipe: Any) -> bool:
        if pipe.closed:
            return False
        try:
            data = os.read(pipe.fileno(), PIPE)
        except BlockingIOError:
            return False
        if not data:
            self.selector.unregister(pipe)
            pipe.close()
            return False
        if self.left[number] < 0:
            return True  # it is being ended
        self.left[number] -= len(data)
        if self.left[number] < 0:
            send({"id": self.id, "flood": number})
            self.end(signal.SIGKILL)
        elif self.talks or self.sent[number] < AT_ONCE:
            self.sent[number] += len(data)
            send({"id": self.id, "stream": number}, data)
        else:
            self.kept[number].append(data)
        return True

    def ended(self) -> None:
        """Tells all that is left; what a grandchild may print later is not waited for."""
        for number, pipe in self.pipes:
            while not pipe.closed and self.read(number, pipe):
                pass
            for data in self.kept[number]:
                send({"id": self.id, "stream": number}, data)
            if not pipe.closed:
                self.selector.unregister(pipe)
                pipe.close()
        if self.stdin and not self.stdin.closed:
            if self.waiting:
                self.selector.unregister(self.stdin)
            self.stdin.close()
        self.end(signal.SIGKILL)
        send({"id": self.id, "end": self.popen.returncode})

    def end(self, number: int) -> None:
        try:
            os.killpg(self.popen.pid, number)
        except (ProcessLookupError, PermissionError):
            pass


class Runner:
    def __init__(self) -> None:
        self.selector = selectors.DefaultSelector()
        self.programs: dict[int, Program] = {}
        self.buffer = b""
        self.heard = time.monotonic()
        wake, self.waker = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(self.waker, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self.waker, warn_on_full_buffer=False)
        self.selector.register(0, selectors.EVENT_READ, (self.hear, None, None))
        self.selector.register(wake, selectors.EVENT_READ, (self.reap, wake, None))

    def reap(self, wake: int, _: Any) -> None:
        try:
            os.read(wake, 4096)
        except BlockingIOError:
            pass
        for program in list(self.programs.values()):
            if program.popen.poll() is not None:
                del self.programs[program.id]
                program.ended()

    def hear(self, *_: Any) -> None:
        data = os.read(0, 1 << 20)
        if not data:
            raise SystemExit(0)
        self.heard = time.monotonic()
        self.buffer += data
        while len(self.buffer) >= 8:
            head, body = struct.unpack(">II", self.buffer[:8])
            if len(self.buffer) < 8 + head + body:
                return
            header, data = (
                json.loads(self.buffer[8 : 8 + head]),
                self.buffer[8 + head : 8 + head + body],
            )
            self.buffer = self.buffer[8 + head + body :]
            self.do(header, data)

    def do(self, header: dict[str, Any], data: bytes) -> None:
        try:
            if header["do"] == "spawn":
                self.programs[header["id"]] = Program(header, data, self.selector)
                os.write(self.waker, b"\0")  # it may have ended before it was known
            elif header["do"] == "write":
                if header["id"] in self.programs:
                    self.programs[header["id"]].more(data)
            elif header["do"] == "signal":
                if header["id"] in self.programs:
                    self.programs[header["id"]].end(header["number"])
            elif header["do"] == "read":
                texts = []
                for path in header["paths"]:
                    with open(path, "rb") as file:
                        texts.append(file.read())
                send({"id": header["id"], "texts": [len(text) for text in texts]}, b"".join(texts))
            elif header["do"] == "ping":
                send({"id": header["id"], "texts": []})
        except Exception as error:
            message = (
                f"{error.strerror}: {error.filename}"
                if isinstance(error, OSError)
                else f"{type(error).__name__}: {error}"
            )
            send(
                {
                    "id": header["id"],
                    "error": message,
                    "missing": isinstance(error, FileNotFoundError),
                }
            )

    def main(self) -> None:
        send({"id": 0, "ready": sys.version.split()[0]})
        try:
            while True:
                for key, _ in self.selector.select(timeout=SILENCE / 4):
                    work, *arguments = key.data
                    work(*arguments)
                if time.monotonic() - self.heard > SILENCE:
                    return
        except BrokenPipeError:
            return
        finally:
            for program in self.programs.values():
                program.end(signal.SIGKILL)


if __name__ == "__main__":
    try:
        os.setpriority(os.PRIO_PROCESS, 0, min(PRIORITY, AHEAD))
    except OSError:
        pass  # a Pod without that right
    Runner().main()
