"""Where log records go. Each module logs to ``logging.getLogger(__name__)``, below ``cnibench``.

INFO: steps and decisions. DEBUG: every command with its exit status and time, every API request.
Records reach stderr with ``-v`` (INFO) or ``-vv`` (DEBUG), and a run's own log file always (DEBUG).
No secret is written: command lines pass ``shown``, and ``hide`` names further texts.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TypeVar

from cnibench.system.text import printable

_ROOT = logging.getLogger("cnibench")
_EARLY = 5000  # records kept until there is a file for them
_LONGEST = 200  # characters of one word of a command line: programs are passed as words
_HIDDEN = "(secret)"
_KEY = re.compile(
    r"(?i)([\w.-]*(?:token|passw(?:or)?d|secret|credential|private-?key|from-literal)[\w.-]*"
    r"\"?[=:]\s*)[^\s,]+"
)
# Words before a secret, and at what distance: of kubectl and helm, and of ip-xfrm(8), where the
# name of the algorithm is between them.
_OPTIONS = {"--token": 1, "--password": 1, "--docker-password": 1, "--from-literal": 1}
_XFRM = {"aead": 2, "enc": 2, "auth": 2, "auth-trunc": 2}
_H = TypeVar("_H", bound=logging.Handler)
_secrets: list[str] = []
_state = {"verbosity": 0}


def hide(secrets: Iterable[str]) -> None:
    """These texts become ``(secret)`` in every record from now on."""
    _secrets[:] = sorted({*_secrets, *filter(None, secrets)}, key=len, reverse=True)


def shown(argv: Sequence[str]) -> str:
    """A command line for the log: long words are cut, keys and passwords hidden."""
    before = _OPTIONS | (_XFRM if "xfrm" in argv else {})
    words, distance = [], 0
    for word in argv:
        secret = distance == 1
        distance = distance - 1 if distance else before.get(word, 0)
        words.append(
            _HIDDEN if secret else word if len(word) <= _LONGEST else f"{word[: _LONGEST - 3]}..."
        )
    return _KEY.sub(rf"\g<1>{_HIDDEN}", shlex.join(words))


class _Format(logging.Formatter):
    """``2026-11-22T10:00:00.123Z INFO run.runner: ...``, one line a record."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        message = record.getMessage()
        for secret in _secrets:
            message = message.replace(secret, _HIDDEN)
        name = record.name.removeprefix("cnibench.")
        line = f"{when.removesuffix('+00:00')}Z {record.levelname} {name}: {message}"
        return printable(line, newlines=False)


class _Screen(logging.Handler):
    """stderr as it is when the record is made: a command replaces it."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr)


class _Early(logging.Handler):
    """Keeps records until a run has its directory."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: deque[logging.LogRecord] = deque(maxlen=_EARLY)

    def emit(self, record: logging.LogRecord) -> None:
        self.kept.append(record)


class _File(logging.Handler):
    """Appends each record with one write: several processes may log to the same file."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self.descriptor = descriptor

    def emit(self, record: logging.LogRecord) -> None:
        line = f"{self.format(record)}\n".encode(errors="backslashreplace")
        try:
            os.write(self.descriptor, line)
        except OSError:
            pass  # a full disk ends the run where it stores a sample, and is reported there


def to_stderr(count: int) -> None:
    """Shows the log on stderr: ``count`` times ``-v``; 0 changes nothing."""
    _state["verbosity"] = max(_state["verbosity"], count)
    if count:
        _remove(_Screen)
        _add(_Screen(), logging.DEBUG if count > 1 else logging.INFO)


def verbosity() -> int:
    """How many times ``-v`` was given."""
    return _state["verbosity"]


def keep() -> None:
    """Records wait for ``into``, earlier ones no longer: a run decides much before it has a
    directory.
    """
    _remove(_Early)
    _add(_Early(), logging.DEBUG)


@contextmanager
def into(descriptor: int) -> Iterator[None]:
    """Appends the records, those that were kept first, to this file, and closes it at the end."""
    handler = _File(descriptor)
    _add(handler, logging.DEBUG)
    for early in _remove(_Early):
        for record in early.kept:
            handler.handle(record)
    try:
        yield
    finally:
        _ROOT.removeHandler(handler)
        os.close(descriptor)
        _level()


def _add(handler: logging.Handler, level: int) -> None:
    handler.setLevel(level)
    handler.setFormatter(_Format())
    _ROOT.addHandler(handler)
    _level()


def _remove(kind: type[_H]) -> list[_H]:
    found = [one for one in _ROOT.handlers if isinstance(one, kind)]
    for one in found:
        _ROOT.removeHandler(one)
    return found


def _level() -> None:
    """Records that no handler wants are not made."""
    _ROOT.setLevel(min((one.level for one in _ROOT.handlers if one.level), default=logging.NOTSET))
