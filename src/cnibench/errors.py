"""Every error that cnibench raises on purpose: a message, a remedy and the exit code of INTERFACE.

The command line prints ``message`` and ``remedy`` and exits with ``exit_code``; anything else is a
defect.
"""

from __future__ import annotations


class CnibenchError(Exception):
    """Base of all errors that a user may see. ``remedy`` says what to do about it."""

    exit_code = 1

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    @property
    def in_full(self) -> str:
        """Both in one line."""
        return f"{self.message}; remedy: {self.remedy}" if self.remedy else self.message


class UsageError(CnibenchError):
    """Wrong options or arguments."""

    exit_code = 2


class InputError(CnibenchError):
    """A file given to us is wrong: the message names the file, the key or line, and what was
    expected.
    """

    exit_code = 2


class OutputError(CnibenchError):
    """What we say cannot be written where the user wants it."""

    exit_code = 2


class MissingError(CnibenchError):
    """This machine or cluster lacks something; the remedy is the command that provides it."""

    exit_code = 3


class NoSlicesError(MissingError):
    """This machine cannot measure in slices what a plan has in slices."""


class MeasureError(CnibenchError):
    """One measurement failed; the run goes on and records the reason."""


class LimitError(MeasureError):
    """A wait reached its limit; recorded with status ``timeout``."""


class UnsupportedError(MeasureError):
    """What this cell asks for does not exist here (an L7 rule in the lab, say); recorded with
    status ``unsupported``.
    """


class ClusterError(CnibenchError):
    """A cluster, node or Pod did not do what it was asked."""


class EndedError(ClusterError):
    """The cluster is lost to this run (out of reach for too long, or taken away): the run ends, and
    can be resumed.
    """


class Interrupted(BaseException):
    """Ctrl-C or SIGTERM: everything was cleaned up, the run can be resumed.

    Like KeyboardInterrupt it is not an Exception: it may be raised anywhere, and code that handles
    a failure there, a library's for instance, would swallow it.
    """

    exit_code = 130

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


def as_data(error: CnibenchError) -> dict[str, str]:
    """An error for another process."""
    return {"error": type(error).__name__, "message": error.message, "remedy": error.remedy}


def of_data(data: dict[str, str]) -> CnibenchError:
    """The reverse of ``as_data``."""
    kind = globals().get(data["error"])
    if not (isinstance(kind, type) and issubclass(kind, CnibenchError)):
        kind = CnibenchError
    return kind(data["message"], data["remedy"])
