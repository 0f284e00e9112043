"""report.md in a run directory: the last report. Its last line has the hash of the text above, so
that one that somebody edited is known, and kept.
"""

from __future__ import annotations

from pathlib import Path

from cnibench.errors import InputError
from cnibench.rundir.chain import digest
from cnibench.rundir.files import aside
from cnibench.rundir.schema import LONGEST_DOCUMENT, REPORT
from cnibench.system.files import read_beneath, replace_beneath


def store(path: Path, text: str) -> str:
    """Writes report.md. One that is not as a run wrote it is renamed: its new name, else ''.
    Raises OSError.
    """
    kept = "" if _unchanged(path) else aside(path, REPORT)
    content = text.encode("utf-8", "replace")
    replace_beneath(path, REPORT, content + _last_line(content))
    return kept


def _unchanged(path: Path) -> bool:
    try:
        data = read_beneath(path, REPORT, LONGEST_DOCUMENT)
    except FileNotFoundError:
        return True
    except InputError:  # no regular file, or too large for a report
        return False
    content = data[: -len(_last_line(b""))]
    return data == content + _last_line(content)


def _last_line(content: bytes) -> bytes:
    return f"<!-- sha256 of the text above: {digest(content)} -->\n".encode()
