"""What goes wrong with one sample is recorded with it, and its raw files are its owner's."""

from __future__ import annotations

import errno
import logging
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from cnibench.errors import CnibenchError, MeasureError
from cnibench.rundir.writer import RunWriter
from cnibench.system.files import make_private, write_private

_log = logging.getLogger(__name__)


@contextmanager
def private(folders: Sequence[Path]) -> Iterator[None]:
    """The output of tools names programs, addresses and machines: in the end only its owner may
    read it.
    """
    try:
        yield
    finally:
        for folder in folders:
            make_private(folder)


@contextmanager
def recorded(raw: Path, writer: RunWriter) -> Iterator[None]:
    """Turns every fault of one sample into one that is recorded: a parser's defect must not end a
    night's run.
    """
    try:
        yield
    except CnibenchError:
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise writer.full() from None
        where = f"{error.filename}: " if error.filename else ""
        raise MeasureError(f"{where}{error.strerror or error}") from None
    except Exception as error:
        _log.exception("a bug in cnibench")
        with writer.storing(raw / "defect.txt"):
            write_private(raw / "defect.txt", traceback.format_exc())
        raise MeasureError(
            f"a bug in cnibench: {type(error).__name__}: {error}",
            "report defect.txt, which is in the sample's raw folder",
        ) from None
