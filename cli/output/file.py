"""Writes a result to the file that --out names."""

from __future__ import annotations

from pathlib import Path

from cnibench.errors import InputError
from cnibench.system.files import check_relative


def write(path: Path, content: str | bytes) -> None:
    """A file of text or bytes. Raises InputError when it cannot be written."""
    check_relative(path)
    try:
        path.write_bytes(
            content if isinstance(content, bytes) else content.encode("utf-8", "replace")
        )
    except OSError as error:
        raise InputError(
            f"{path}: {error.strerror}",
            "give --out a file in a folder that exists, can be written and has free space",
        ) from None
