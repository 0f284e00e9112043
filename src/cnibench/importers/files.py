"""The files of another tool's results: which they are, their labels, their text."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from cnibench.errors import InputError
from cnibench.importers.batch import Given
from cnibench.system.files import read_beneath, read_named

_LARGEST = 64 << 20  # bytes of one file
_MOST_FILES = 10_000  # that are read
_MOST_SEEN = 200_000  # files and folders that are looked at


def texts(path: Path, given: Given, endings: tuple[str, ...]) -> Iterator[tuple[Path, str, str]]:
    """(file, its label, its text) of each of ``files``. Raises InputError."""
    for file in files(path, endings):
        yield file, label_of(file, path, given), text_of(file, path)


def content_of(file: Path, root: Path) -> bytes:
    """A file that the user named (``root``), or one below a folder that the user named: there no
    link is followed. Raises InputError.
    """
    try:
        if file == root:
            return read_named(file, _LARGEST)
        return read_beneath(root, file.relative_to(root), _LARGEST)
    except OSError as error:
        raise InputError(f"{file}: {error.strerror or error}", "check the path") from None
    except ValueError:
        raise InputError(f"{str(file)!r}: not a path", "check the path") from None


def text_of(file: Path, root: Path) -> str:
    """Its text. Raises InputError."""
    return decoded(content_of(file, root), file)


def decoded(content: bytes, file: Path) -> str:
    """Raises InputError."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InputError(f"{file}: not UTF-8 text", "check that this is the right file") from None


def files(path: Path, endings: tuple[str, ...]) -> list[Path]:
    """The same as ``below``. Raises InputError when there are none, too."""
    found = below(path, endings)
    if not found:
        raise InputError(
            f"{path}: no file in it ends with {', '.join(endings)}",
            "name the file, or the folder that holds the results",
        )
    return found


def below(path: Path, endings: tuple[str, ...]) -> list[Path]:
    """The file itself, or all files below a folder whose names end so, in order of their names;
    folders behind links are left out.

    Raises InputError when there are too many.
    """
    if not path.is_dir():
        return [path]
    found, seen = [], 0
    for folder, folders, names in os.walk(path):
        seen += len(folders) + len(names)
        found += [Path(folder, name) for name in names if name.endswith(endings)]
        if seen > _MOST_SEEN or len(found) > _MOST_FILES:
            raise InputError(
                f"{path}: more than {_MOST_FILES:,} files of results, or {_MOST_SEEN:,} of any"
                " kind",
                "import it in parts",
            )
    return sorted(found)


def label_of(file: Path, root: Path, given: Given) -> str:
    """The label that the user gave; else the first folder below the one that is imported
    (PROFILE/...), else that one, else the file.
    """
    if given.label:
        return given.label
    if root.is_dir():
        parts = file.relative_to(root).parts
        return readable(parts[0] if len(parts) > 1 else root.absolute().name)
    return readable(file.stem)


def readable(name: str) -> str:
    """A file's name as text: bytes that are no UTF-8 are replaced."""
    return name.encode("utf-8", "replace").decode() or "imported"
