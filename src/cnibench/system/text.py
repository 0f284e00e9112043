"""Text of others made fit for a terminal: what a terminal obeys or hides is shown as an escape.

A label, a reason or a file's name may hold sequences that move the cursor or set the window's
title, marks that turn the direction of writing, or characters without width. They are shown as
``\\u001b``: visible to people, and the same string to whoever reads our output as JSON.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TextIO

from cnibench.errors import OutputError

if TYPE_CHECKING:
    from rich.console import Console

# The categories Cc, Cf, Cs, Co, Zl and Zp of Unicode 15, and what it draws as nothing although its
# category says otherwise (Default_Ignorable_Code_Point; the Hangul fillers, variation selectors),
# and the blank of Braille. A newline and a tab are in it; ``printable`` lets them by when asked to.
_RANGES = (
    (0x00, 0x1F),
    (0x7F, 0x9F),
    (0xAD, 0xAD),
    (0x034F, 0x034F),
    (0x0600, 0x0605),
    (0x061C, 0x061C),
    (0x06DD, 0x06DD),
    (0x070F, 0x070F),
    (0x0890, 0x0891),
    (0x08E2, 0x08E2),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x2028, 0x202E),
    (0x2060, 0x206F),
    (0x2800, 0x2800),
    (0x3164, 0x3164),
    (0xD800, 0xF8FF),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFFB),
    (0x110BD, 0x110BD),
    (0x110CD, 0x110CD),
    (0x13430, 0x1345F),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0x10FFFF),
)
_CLASS = "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in _RANGES)
HIDDEN = re.compile(f"[{_CLASS}]")
_HIDDEN_IN_A_LINE = re.compile(f"(?![\n\t])[{_CLASS}]")


def printable(text: str, *, newlines: bool = True) -> str:
    """``text`` with every hidden character as ``\\uXXXX``; newlines and tabs stay unless asked
    otherwise.
    """
    if text.isascii() and text.isprintable():
        return text
    return (_HIDDEN_IN_A_LINE if newlines else HIDDEN).sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code > 0xFFFF:  # as JSON writes it
        code -= 0x10000
        return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
    return f"\\u{code:04x}"


class ReaderGoneError(Exception):
    """Who reads our standard output has ended (``| head``).

    No OSError: click catches a BrokenPipeError, and then says at the interpreter's end what it
    should keep to itself.
    """


class Stream:
    """A text stream that takes any text, whatever its encoding.

    What the ``raw`` stream does not take (a full disk) raises OutputError; with ``comment`` it is
    dropped: a run must not end because nobody can read what it says meanwhile. A pipe whose reader
    has gone raises ReaderGoneError.
    """

    def __init__(self, raw: TextIO, *, comment: bool = False) -> None:
        self.raw = raw
        self.comment = comment

    def write(self, text: str) -> int:
        self._try(self.raw.write, _encodable(text, self.raw))
        return len(text)

    def write_bytes(self, content: bytes) -> None:
        """What is no text, as it is."""
        self._try(self.raw.buffer.write, content)

    def flush(self) -> None:
        self._try(self.raw.flush)

    def _try(self, what: Any, *arguments: Any) -> None:
        try:
            what(*arguments)
        except (OSError, ValueError) as error:
            if self.comment:
                self._silence()
                return
            if isinstance(error, BrokenPipeError):
                raise ReaderGoneError from None
            reason = getattr(error, "strerror", None) or error
            raise OutputError(
                f"standard output: {reason}", "write to a writable file on a disk with free space"
            ) from None

    def _silence(self) -> None:
        """What is buffered still goes nowhere, so that the interpreter's own flush at its end does
        not fail and take the exit status.
        """
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.raw.fileno())
            os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


class Screen(Stream):
    """Where everything that is written becomes printable; what guards all commands' output."""

    # click replaces a stream that cannot take all of Unicode with one of its own
    encoding = "utf-8"
    errors = "strict"

    def write(self, text: str) -> int:
        return super().write(printable(text))

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)


def _encodable(text: str, stream: Any) -> str:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
        return text
    except UnicodeEncodeError:
        return text.encode(encoding, "backslashreplace").decode(encoding)


def console(stream: Any, **options: Any) -> Console:
    """rich's console on ``stream``: its own control sequences pass, those in what it prints do not.

    No markup is interpreted.
    """
    from rich.console import Console
    from rich.segment import Segment

    class Safe(Console):
        def render(self, *arguments: Any, **more: Any) -> Iterable[Segment]:
            for one in super().render(*arguments, **more):
                text = one.text if one.control else printable(one.text)
                yield one if text is one.text else Segment(text, one.style)

    raw = stream
    while isinstance(raw, Screen):  # one in another, where a guarded command guards a part of it
        raw = raw.raw
    file: Any = stream if raw is stream else Stream(raw, comment=stream.comment)
    return Safe(file=file, markup=False, highlight=False, emoji=False, **options)
