"""This machine as a place, for tests of what reads one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cnibench.system import process as programs
from cnibench.system.process import Done, Process
from cnibench.testbed.place import Place


class Here(Place):
    """``program`` is run in place of the first word of a command; '': the word itself."""

    name = "here"

    def __init__(self, *, of_lab: bool = True, program: str = "") -> None:
        self.of_lab = of_lab
        self.program = program

    def spawn(
        self, argv: Sequence[str], *, stdout: Path | None = None, stderr: Path | None = None
    ) -> Process:
        return programs.spawn(argv, stdout=stdout, stderr=stderr)

    def run(
        self, argv: Sequence[str], *, timeout: float, input: str | None = None, check: bool = True
    ) -> Done:
        words = [self.program or argv[0], *argv[1:]]
        return programs.run(words, timeout=timeout, input=input, check=check)

    def read_text(self, path: str) -> str:
        return Path(path).read_text()
