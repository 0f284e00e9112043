"""The documents of a run directory, which are written at once: plan.json, env.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import msgspec

from cnibench.errors import InputError
from cnibench.rundir.schema import LONGEST_DOCUMENT, Record, migrate
from cnibench.system.files import read_beneath

T = TypeVar("T")
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ValueError)
WHOLE = "take the file from a complete copy of the run"


class AbsentError(InputError):
    """A document is not there."""


def content(path: Path, name: str) -> bytes:
    """The bytes of a document in the run directory ``path``. Raises AbsentError, InputError."""
    try:
        return read_beneath(path, name, LONGEST_DOCUMENT)
    except FileNotFoundError:
        raise AbsentError(
            f"{path}: not a run directory, there is no {name} in it",
            "'cnibench runs' lists the runs",
        ) from None
    except OSError as error:
        raise InputError(
            f"{path / name}: {error.strerror}", "check the path and its permissions"
        ) from None


def decoded(path: Path, data: bytes) -> Record:
    """The object that a document is. Raises InputError."""
    try:
        record = msgspec.json.decode(data)
    except UNREADABLE as error:
        raise InputError(f"{path}: not JSON: {error}", WHOLE) from None
    if not isinstance(record, dict):
        raise InputError(f"{path}: expected an object", "is this a run directory of cnibench?")
    return record


def converted(path: Path, record: Record, kind: type[T]) -> T:
    """The record of the document ``path`` in the present schema. Raises InputError."""
    try:
        return msgspec.convert(migrate(str(path), record), kind)
    except UNREADABLE as error:
        raise InputError(f"{path}: {error}", WHOLE) from None


def facts(path: Path, name: str) -> Record:
    """An environment; empty when there is none. Raises InputError."""
    try:
        data = content(path, name)
    except AbsentError:
        return {}
    return converted(path / name, decoded(path / name, data), dict[str, Any])
