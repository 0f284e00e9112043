"""Turns what a command raises into a message on stderr and an exit status, and keeps its output fit
for a terminal.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import click

from cnibench.cli.memory import is_lack_of_memory
from cnibench.errors import CnibenchError, Interrupted, OutputError
from cnibench.system.files import working_directory_is_gone
from cnibench.system.text import ReaderGoneError, Screen

# What a machine lacks, and what is wrong with a path, by the numbers of open(2) and write(2).
_LACKS = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO}
)
_WRONG = frozenset(
    {errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR}
)

_REMEDIES = {
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENFILE: "raise the machine's limit of open files (sysctl fs.file-max)",
    errno.ENOMEM: "free some memory",
}


def guarded(work: Callable[[], Any]) -> int:
    """Runs ``work``; its exit status: what it returns when that is a number, else 0, and that of
    the error when it raises one.
    """
    with _screens():
        try:
            status = work()
            sys.stdout.flush()
            return status if isinstance(status, int) else 0
        except BaseException as error:
            if isinstance(error, ReaderGoneError | OutputError):
                # The reader of our output has gone (| head), or it cannot be written: nothing more
                # can be said there, the interpreter's own flush included.
                with contextlib.suppress(OSError, ValueError):
                    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            if isinstance(error, SystemExit):
                raise
            return _report(error)


@contextlib.contextmanager
def _screens() -> Iterator[None]:
    """Both streams as Screens, until the work is done."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = Screen(sys.stdout), Screen(sys.stderr, comment=True)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _report(error: BaseException) -> int:
    """Says what happened; the exit status for it."""
    match error:
        case CnibenchError() | Interrupted():
            return _say(error.message, error.remedy, error.exit_code)
        case click.exceptions.NoArgsIsHelpError():
            error.show()
            return 2
        case click.UsageError():
            path = error.ctx.command_path if error.ctx else "cnibench"
            return _say(
                error.format_message().rstrip("."), f"'{path} --help' says what it takes", 2
            )
        case click.ClickException():
            return _say(error.format_message(), "", error.exit_code)
        case click.exceptions.Exit():
            return error.exit_code
        case KeyboardInterrupt() | click.Abort():
            return _say("interrupted", "", 130)
        case ReaderGoneError():
            return 0
        case _ if is_lack_of_memory(error):
            return _say(
                "there is not enough memory for this", "free some, or take fewer runs at once", 3
            )
        case RecursionError():
            return _say("something in the input is nested too deeply", "--debug shows where", 2)
        case OSError() if not error.filename and working_directory_is_gone():
            return _say("the working directory is gone", "change into a folder that exists", 2)
        case OSError() if error.errno in _LACKS | _WRONG:
            where = (
                f"{os.fsdecode(error.filename)}: "
                if isinstance(error.filename, str | bytes)
                else ""
            )
            remedy = _REMEDIES.get(
                error.errno or 0, "check the path, its permissions and the free disk space"
            )
            return _say(f"{where}{error.strerror}", remedy, 3 if error.errno in _LACKS else 2)
        case _:
            words = f"a bug in cnibench: {type(error).__name__}: {error}"
            return _say(words, "report it with what --debug shows", 1)


def _say(message: str, remedy: str, status: int) -> int:
    """On one line each: a newline in a name must not look like a line of ours."""
    if os.environ.get("CNIBENCH_DEBUG"):
        import traceback

        traceback.print_exc()
    print(f"error: {_line(message)}", file=sys.stderr)
    if remedy:
        print(f"  remedy: {_line(remedy)}", file=sys.stderr)
    sys.stderr.flush()
    return status


def _line(text: str) -> str:
    return " ".join(part.strip() for part in text.split("\n"))
