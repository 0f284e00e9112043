"""How the programs of a load are started and ended, wherever they run."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Self

from cnibench.errors import CnibenchError


class Lifetime(abc.ABC):
    """``with`` starts all of it, or nothing, and ends all of it."""

    failure: CnibenchError | None = None  # what its end found out

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    @abc.abstractmethod
    def _start(self) -> None:
        """Raises CnibenchError."""

    @abc.abstractmethod
    def end(self) -> None:
        """Ends its programs. May be called twice."""

    def _end(self, end: Callable[[], object]) -> None:
        """What had died, or cannot be ended, is kept: the other generators are not to blame."""
        try:
            end()
        except CnibenchError as failure:
            self.failure = self.failure or failure
