"""Writes a result to the file that --out names."""

from __future__ import annotations

import os
from pathlib import Path

from cnibench.errors import InputError
from cnibench.system.files import check_relative, replace_beneath


def write(path: Path, content: str | bytes) -> None:
    """A file of text or bytes; a new one is complete or absent. Raises InputError when it cannot be
    written.
    """
    check_relative(path)
    data = content if isinstance(content, bytes) else content.encode("utf-8", "replace")
    try:
        if os.path.lexists(path):  # perhaps a device, or a link that the user made
            path.write_bytes(data)
        else:
            replace_beneath(path.parent, path.name, data)
    except OSError as error:
        raise InputError(
            f"{path}: {error.strerror}",
            "give --out a file in a folder that exists, can be written and has free space",
        ) from None
