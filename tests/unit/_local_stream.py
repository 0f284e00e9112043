"""A command that runs here, with the interface of one in a container."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from cnibench.clusters.kubernetes.api.client import Answer
from cnibench.clusters.kubernetes.api.exec import Stream


class Local(Stream):
    """Its ends are pipes in place of a WebSocket."""

    def __init__(self, argv: Sequence[str]) -> None:
        command = [sys.executable if word == "python3" else word for word in argv]
        self._process: Any = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        self.pid = self._process.pid
        self.status = Answer(0)

    def write(self, data: bytes | memoryview) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[self._process.stdin.write(view) :]
            except ValueError:
                raise BrokenPipeError from None

    def read(self, size: int) -> bytes:
        try:
            return bytes(self._process.stdout.read(size))
        except ValueError:
            return b""

    def said(self) -> str:
        self._process.wait()
        return str(self._process.stderr.read().decode())

    def end(self) -> None:
        self._process.stdin.close()

    def close(self) -> None:
        self.end()
