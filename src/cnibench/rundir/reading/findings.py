"""What is wrong or unusual in a run directory, each named once."""

from __future__ import annotations

from cnibench.rundir.chain import Problem


class Findings:
    """``warnings`` are usual in a run that was interrupted or is of an older version; ``problems``
    name what is lost, changed, doubled, out of order or not chained.
    """

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.problems: list[Problem] = []
        self._known: set[Problem] = set()

    def warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)

    def add(self, problem: Problem) -> None:
        if problem not in self._known:
            self._known.add(problem)
            self.problems.append(problem)
