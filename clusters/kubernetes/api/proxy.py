"""HTTP to an API server with kubectl's credentials: answers have a status and a reason, and none
costs a process.

One ``kubectl proxy`` listens on a socket in a private folder; it authenticates as kubectl does,
plugins included.
"""

from __future__ import annotations

import atexit
import contextlib
import http.client
import json
import logging
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from cnibench.errors import CnibenchError
from cnibench.system import process as programs
from cnibench.system import scratch

_log = logging.getLogger(__name__)
JSON = "application/json"
_START = 20.0  # s
# A child dies with the thread that started it (PR_SET_PDEATHSIG); this one stays.
_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="cnibench-api")


@dataclass(frozen=True)
class Answer:
    """``status`` is that of HTTP, 0 when there was no answer; ``reason`` the API's, or why there
    was none.
    """

    status: int
    body: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    message: str = ""

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def silent(self) -> bool:
        """Did the API server not answer, or say that it cannot now?"""
        return self.status == 0 or self.status >= 500 or self.status == 429


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Api:
    """``command`` is the command line of ``kubectl proxy``. Started at its first use, and again
    when it has ended.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)
        self._lock = threading.Lock()
        self._stack = ExitStack()
        self._process: programs.Process | None = None
        self._socket = ""
        atexit.register(self.close)

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        timeout: float = 10.0,
        *,
        content: str = JSON,
        accept: str = JSON,
    ) -> Answer:
        """One request. Raises MissingError without kubectl; everything else is in the answer."""
        began = time.monotonic()
        answer = self._call(method, path, body, timeout, content, accept)
        _log.debug(
            "%s %s: %s after %.3f s",
            method,
            path,
            f"{answer.status} {answer.reason}".rstrip(),
            time.monotonic() - began,
        )
        return answer

    def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        timeout: float,
        content: str,
        accept: str,
    ) -> Answer:
        try:
            where = self._started()
        except CnibenchError as error:
            if error.exit_code == 3:
                raise
            return Answer(0, reason="Unreachable", message=error.message)
        connection = _Connection(where, timeout)
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": content, "Accept": accept})
            answer = connection.getresponse()
            return _answer(answer.status, answer.read())
        except (OSError, http.client.HTTPException) as error:
            said = "no answer in time" if isinstance(error, TimeoutError) else str(error)
            return Answer(0, reason="Unreachable", message=said)
        finally:
            connection.close()

    def close(self) -> None:
        """May be called twice; the next request starts it again."""
        with self._lock:
            self._process = None
            self._stack.close()

    def _started(self) -> str:
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._stack.close()
                self._start()
            return self._socket

    def _start(self) -> None:
        with ExitStack() as stack:
            folder = stack.enter_context(scratch.folder())
            said = stack.enter_context(contextlib.closing(programs.Errors()))
            path = str(folder / "api")
            argv = [*self._command, f"--unix-socket={path}", "--append-server-path=true"]
            process, given, output = _starter.submit(programs.converse, argv, said).result()
            for one in (process, output, given):
                stack.enter_context(one)
            # Its first line comes when it listens.
            reader = threading.Thread(target=output.readline, daemon=True)
            reader.start()
            reader.join(_START)
            if reader.is_alive() or process.poll() is not None:
                process.kill()
                raise CnibenchError(
                    f"kubectl proxy did not start: {said.text()[-300:] or 'it said nothing'}"
                )
            self._process, self._socket = process, path
            self._stack = stack.pop_all()


def _answer(status: int, data: bytes) -> Answer:
    try:
        body = json.loads(data)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        return Answer(status, message=data[:300].decode(errors="replace").strip())
    said = body if body.get("kind") == "Status" else {}
    return Answer(status, body, str(said.get("reason") or ""), str(said.get("message") or ""))
