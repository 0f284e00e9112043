"""Calls a command without a new interpreter, its messages and exit status as the program gives
them.
"""

from __future__ import annotations

import io
import json
import os
import re
import signal
import traceback
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

from cnibench.cli.errors import guarded
from cnibench.cli.main import group

_PATIENCE = 60  # seconds that a fork may take


class Outcome(NamedTuple):
    exit_code: int
    stdout: str
    stderr: str


def call(arguments: Sequence[str]) -> Outcome:
    """``cnibench ARGUMENTS``."""
    out, err = (
        io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2)
    )
    with redirect_stdout(out), redirect_stderr(err):
        status = guarded(
            lambda: group.main(list(arguments), prog_name="cnibench", standalone_mode=False)
        )
    return Outcome(status, *(stream.buffer.getvalue().decode() for stream in (out, err)))  # type: ignore[attr-defined]


def call_in_child(before: Callable[[], object], arguments: Sequence[str]) -> Outcome:
    """``cnibench ARGUMENTS`` in a fork of this process, after ``before``: a limit or a kill is that
    of the fork alone. One that a signal ended says nothing. Not for what uses threads of this
    process, as charts do: the fork has none of them.
    """
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            signal.alarm(_PATIENCE)
            before()
            with open(write, "w", encoding="utf-8") as pipe:
                json.dump(call(arguments), pipe)
            os._exit(0)
        except BaseException:
            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(1)
    os.close(write)
    with open(read, encoding="utf-8") as pipe:
        said = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return Outcome(status, "", "") if status else Outcome(*json.loads(said))


def unwrapped(text: str) -> str:
    """The gate's paragraphs, each in one line."""
    return re.sub(r"\n(?: {2}| {6})(?! )", " ", text)
