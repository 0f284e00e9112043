"""A program that runs in a Pod: what came back from it over a gateway, and the process that it is
for its caller.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from cnibench.errors import ClusterError, LimitError
from cnibench.system import process as programs
from cnibench.system.files import output_file
from cnibench.system.guest import patience
from cnibench.system.process import Process

ANSWER = 20.0  # s: for anything that the other end does at once


class Answer:
    """What came back for one message."""

    def __init__(
        self, stdout: Path | None = None, stderr: Path | None = None, keep: bool = False
    ) -> None:
        self.first = threading.Event()  # the first message has arrived
        self.ended = threading.Event()
        self.pid = 0
        self.status: int | None = None
        self.error = ""
        self.missing = False
        self.texts: list[str] = []
        self.kept = {1: bytearray(), 2: bytearray()} if keep else None
        # where a program's output goes as it comes; None: to files, or it is kept
        self.told: Callable[[bytes], None] | None = None
        self.flood = False  # has it printed more than it may? then it was ended there
        self._files: dict[int, IO[bytes]] = {}
        for number, path in ((1, stdout), (2, stderr)):
            if path is not None:
                self._files[number] = os.fdopen(output_file(path), "wb", buffering=0)

    def take(self, header: dict[str, Any], data: bytes) -> None:
        if "stream" in header:
            if self.told is not None and header["stream"] == 1:
                self.told(data)
            elif self.kept is not None:
                self.kept[header["stream"]] += data
            elif header["stream"] in self._files:
                self._files[header["stream"]].write(data)
            return
        if "flood" in header:
            self.flood = True
            return
        if "pid" in header:
            self.pid = header["pid"]
        elif "end" in header:
            self.finish(header["end"])
        elif "error" in header:
            self.fail(header["error"], header["missing"])
        else:
            rest = memoryview(data)
            for size in header.get("texts", ()):
                self.texts.append(bytes(rest[:size]).decode(errors="replace"))
                rest = rest[size:]
            self.finish(0)
        self.first.set()

    def fail(self, error: str, missing: bool = False) -> None:
        self.error, self.missing = error, missing
        self.finish(None)

    def finish(self, status: int | None) -> None:
        self.status = status
        for file in self._files.values():
            file.close()
        self._files.clear()
        self.first.set()
        self.ended.set()


class RemoteProcess(Process):
    """A program in a Pod, with the face of one that runs here; ``pid`` is its number there. Its
    files are whole once it has ended.
    """

    def __init__(
        self,
        argv: Sequence[str],
        answer: Answer,
        send: Callable[[signal.Signals], None],
        write: Callable[[bytes], None],
    ) -> None:
        """``send`` sends a signal to its process group, ``write`` adds to its input."""
        self.argv = tuple(argv)
        self.write = write
        self._answer = answer
        self._send = send

    @property
    def pid(self) -> int:
        return self._answer.pid

    def poll(self) -> int | None:
        """Exit status, or None while it runs. Raises ClusterError when the connection is lost."""
        if not self._answer.ended.is_set():
            return None
        if self._answer.flood:
            raise programs.too_much(self.argv, programs.MOST_OUTPUT)
        if self._answer.status is None:
            raise ClusterError(self._answer.error)
        return self._answer.status

    def watch(self, seconds: float) -> None:
        if seconds > 0:
            self._answer.ended.wait(seconds)

    def wait(self, timeout: float) -> int:
        if not self._answer.ended.wait(timeout * patience()):
            self.kill()
            raise LimitError(f"{self.argv[0]} did not end within {timeout:.0f} s")
        status = self.poll()
        assert status is not None
        return status

    def interrupt(self) -> None:
        self._send(signal.SIGINT)

    def kill(self) -> None:
        if not self._answer.ended.is_set():
            self._send(signal.SIGKILL)
            self._answer.ended.wait(ANSWER)
