"""Calls a command within this process, its messages and exit status as the program gives them."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

from cnibench.cli._errors import guarded
from cnibench.cli.main import group


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


def unwrapped(text: str) -> str:
    """The gate's paragraphs, each in one line."""
    return re.sub(r"\n(?: {2}| {6})(?! )", " ", text)
