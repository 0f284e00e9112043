"""One connection into a Pod, made once, to a small program that runs commands there: _runner.py."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import logging
import struct
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cnibench.clusters.kubernetes.api.access import DeniedError
from cnibench.clusters.kubernetes.connection.opener import POD, Opener, Stream, There
from cnibench.clusters.kubernetes.connection.remote import ANSWER, Answer, RemoteProcess
from cnibench.errors import ClusterError, LimitError, MissingError
from cnibench.system import process as programs
from cnibench.system.carried import RUN
from cnibench.system.guest import patience
from cnibench.system.log import shown
from cnibench.system.process import Done

_log = logging.getLogger(__name__)
PLAIN = {"LANG": "C", "LC_ALL": "C"}
# s; the other end gives up when some of them are missing: a connection that breaks does not always
# end its input
_PING = 7.0
_SOURCE = Path(__file__).with_name("_runner.py")


class Gateway:
    """The connection to one container. ``what`` names it in messages. Opened at its first use;
    opened again after it was lost.
    """

    def __init__(
        self, access: Opener, namespace: str, pod: str, what: str, there: There = POD
    ) -> None:
        self.access = access
        self.there = there
        self.namespace = namespace
        self.pod = pod
        self.what = what
        self.python = ""  # its version there
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._opening = threading.Lock()
        self._answers: dict[int, Answer] = {}
        self._stream: Stream | None = None
        self._closing = threading.Event()

    def open(self) -> None:
        """Makes the connection unless there is one, or another thread makes it. Raises
        ClusterError.
        """
        with self._opening:  # a second one would take the first one's place, and end it
            if self._stream is None:
                self._try()

    def _try(self) -> None:
        for attempt in range(
            self.there.tries
        ):  # a Pod that is Ready may refuse its first exec while the node is busy
            try:
                return self._open()
            except DeniedError:
                raise
            except ClusterError:
                if attempt == self.there.tries - 1:
                    raise
                time.sleep(0.3 * (attempt + 1))

    def _open(self) -> None:
        # The program comes over the connection: images stay as they are when it changes, and no
        # command line is too long.
        argv = (self.there.python, "-I", "-S", "-u", "-c", RUN)
        stream = self.access.start(self.namespace, self.pod, argv, given=True, what=self.what)
        self._stream = stream
        ready = self._answers[0] = Answer()
        self._closing = threading.Event()
        threading.Thread(target=self._read, args=(stream, self._closing), daemon=True).start()
        source = _SOURCE.read_bytes()
        try:
            stream.write(f"{len(source):08d}".encode() + source)
        except BrokenPipeError:
            pass  # it has ended, and says why
        if not ready.first.wait(self.there.start * patience()) or ready.error:
            said = ready.error or f"no answer within {self.there.start:.0f} s"
            self.close()
            raise ClusterError(
                f"no command can be run in {self.what}: {said}",
                self.there.lost if self.python else self.there.no_command,
            )
        threading.Thread(target=self._ping, args=(self._closing,), daemon=True).start()

    def _read(self, stream: Stream, closing: threading.Event) -> None:
        """Takes what comes, until the connection ends."""
        try:
            while head := _exactly(stream, 8):
                long, size = struct.unpack(">II", head)
                header = json.loads(_exactly(stream, long))
                data = _exactly(stream, size) if size else b""
                if "ready" in header:
                    self.python = header["ready"]
                number = header["id"]
                answer = self._answers.get(number)
                if answer is not None:
                    answer.take(header, data)
                    if answer.ended.is_set():
                        self._answers.pop(number, None)
        except (OSError, ValueError, struct.error):
            pass
        finally:
            stream.close()
            self._lost(stream, closing)

    def _lost(self, stream: Stream, closing: threading.Event) -> None:
        if closing.is_set():
            return
        closing.set()
        said = " | ".join(f"{stream.said()}\n{stream.status.message}".strip().splitlines()[-3:])
        self._stream = None
        with self._lock:
            pending, self._answers = list(self._answers.values()), {}
        words = f"the connection to {self.what} is lost: {self.access.hidden(said)}"
        self.access.dropped.append(words)
        for answer in pending:
            answer.fail(words)

    def _ping(self, closing: threading.Event) -> None:
        while not closing.wait(_PING):
            try:
                self._ask({"do": "ping"}, b"", Answer())
            except ClusterError:
                return

    def _ask(self, header: dict[str, Any], data: bytes, answer: Answer) -> int:
        number = next(self._numbers)
        text = json.dumps({"id": number, **header}).encode()
        with self._lock:
            self._answers[number] = answer
            try:
                if self._stream is None:
                    raise BrokenPipeError
                self._stream.write(struct.pack(">II", len(text), len(data)) + text + data)
            except OSError:
                self._answers.pop(number, None)
                raise ClusterError(
                    f"the connection to {self.what} is lost", self.there.lost
                ) from None
        return number

    def signal(self, number: int, which: int) -> None:
        """To the process group of a program; nothing when the connection is gone, for then it is
        dead.
        """
        self._tell({"id": number, "do": "signal", "number": int(which)})

    def write(self, number: int, data: bytes) -> None:
        """More input of a program that talks; nothing when the connection is gone."""
        self._tell({"id": number, "do": "write"}, data)

    def _tell(self, header: dict[str, Any], data: bytes = b"") -> None:
        text = json.dumps(header).encode()
        with self._lock:
            if self._stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    self._stream.write(struct.pack(">II", len(text), len(data)) + text + data)

    def _spawn(
        self, argv: Sequence[str], answer: Answer, input: bytes | None, talks: bool = False
    ) -> int:
        self.open()
        _log.debug("%s: started: %s", self.what, shown(argv))
        number = self._ask(
            {
                "do": "spawn",
                "argv": list(argv),
                "env": PLAIN,
                "input": input is not None,
                "talks": talks,
                "most": programs.MOST_OUTPUT,
            },
            input or b"",
            answer,
        )
        if not answer.first.wait(ANSWER * patience()):
            raise LimitError(f"{self.what} did not start {argv[0]} within {ANSWER:.0f} s")
        if answer.missing:
            raise MissingError(
                f"the program '{argv[0]}' is not in {self.what}", self.there.no_program
            )
        if answer.error:
            raise ClusterError(f"{self.what}: {argv[0]}: {answer.error}")
        return number

    def _process_of(self, argv: Sequence[str], answer: Answer, number: int) -> RemoteProcess:
        return RemoteProcess(
            argv,
            answer,
            functools.partial(self.signal, number),
            functools.partial(self.write, number),
        )

    def spawn(self, argv: Sequence[str], stdout: Path | None, stderr: Path | None) -> RemoteProcess:
        """Starts a program in the background. Raises ClusterError, MissingError."""
        answer = Answer(stdout, stderr)
        return self._process_of(argv, answer, self._spawn(argv, answer, None))

    def converse(self, argv: Sequence[str], input: bytes, answer: Answer) -> RemoteProcess:
        """Starts a program whose input goes on after ``input``. Raises ClusterError,
        MissingError.
        """
        number = self._spawn(argv, answer, input, talks=True)
        return self._process_of(argv, answer, number)

    def run(
        self, argv: Sequence[str], *, timeout: float, input: str | None = None, check: bool = True
    ) -> Done:
        """Runs a program to its end. Raises ClusterError when ``check`` and it fails, LimitError
        after ``timeout`` seconds.
        """
        answer = Answer(keep=True)
        start = time.monotonic()
        data = None if input is None else input.encode()
        with self._process_of(argv, answer, self._spawn(argv, answer, data)) as process:
            status = process.wait(timeout)
        assert answer.kept is not None
        out, err = (bytes(answer.kept[number]).decode(errors="replace") for number in (1, 2))
        done = Done(tuple(argv), status, out, err, time.monotonic() - start)
        _log.debug("%s: %s ended with %d after %.3f s", self.what, argv[0], status, done.seconds)
        if check and status != 0:
            raise ClusterError(f"{self.what}: {done.words()}")
        return done

    def read(self, path: str) -> str:
        """A file as seen there. Raises ClusterError."""
        return self.read_all([path])[0]

    def read_all(self, paths: Sequence[str]) -> list[str]:
        """Files as seen there, asked for once. Raises ClusterError, which names the one that cannot
        be read.
        """
        self.open()
        answer = Answer()
        self._ask({"do": "read", "paths": list(paths)}, b"", answer)
        if not answer.ended.wait(ANSWER * patience()):
            raise LimitError(f"{self.what}: {paths[0]} was not read within {ANSWER:.0f} s")
        if answer.error:
            raise ClusterError(f"{self.what}: {answer.error}")
        return answer.texts

    def close(self) -> None:
        """Ends the connection, and with it all that runs over it; may be called twice."""
        self._closing.set()
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.end()
        with self._lock:
            pending, self._answers = list(self._answers.values()), {}
        for answer in pending:
            answer.fail(f"the connection to {self.what} was closed")


def _exactly(stream: Stream, size: int) -> bytes:
    """So many bytes, b'' at the end. Raises ValueError when it ends in the middle."""
    parts, left = [], size
    while left:
        part = stream.read(left)
        if not part:
            if left == size:
                return b""
            raise ValueError("cut off")
        parts.append(part)
        left -= len(part)
    return b"".join(parts)
