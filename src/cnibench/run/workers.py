"""Threads for what may be done for several profiles at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

_MOST = 4  # most of the time they wait for the kernel
Item = TypeVar("Item")
Result = TypeVar("Result")


class Workers:
    """They stay until ``close``, because programs end with the thread that started them
    (PR_SET_PDEATHSIG). Not ``concurrent``: the calling thread does everything.
    """

    def __init__(self, concurrent: bool) -> None:
        self._pool = ThreadPoolExecutor(_MOST) if concurrent else None

    def each(self, what: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """``what`` of each item, in their order. When one raises, or the wait is interrupted,
        nothing of it runs any more afterwards.
        """
        if self._pool is None:
            yield from map(what, items)
            return
        futures: list[Future[Result]] = []
        try:
            futures += [self._pool.submit(what, item) for item in items]
            for future in futures:
                yield future.result()
        finally:
            for future in futures:
                future.cancel()
            wait(futures)

    def close(self) -> None:
        """May be called twice."""
        if self._pool is not None:
            self._pool.shutdown()
