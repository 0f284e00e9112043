from __future__ import annotations

import threading
import time

import pytest

from cnibench.run.workers import Workers


def test_one_after_the_other_in_the_calling_thread() -> None:
    workers, seen = Workers(concurrent=False), []
    for one in workers.each(lambda it: (it, threading.get_ident()), "abc"):
        seen.append(one)
        if one[0] == "b":
            break  # "c" was not begun
    assert seen == [("a", threading.get_ident()), ("b", threading.get_ident())]
    workers.close()


def test_several_at_the_same_time_in_their_order_by_threads_that_stay() -> None:
    workers, all_there = Workers(concurrent=True), threading.Barrier(3)

    def meet(it: str) -> str:
        all_there.wait(10)
        return it

    assert list(workers.each(meet, "abc")) == ["a", "b", "c"]
    assert sum("ThreadPoolExecutor" in one.name for one in threading.enumerate()) >= 3
    workers.close()
    workers.close()


def test_nothing_runs_any_more_after_a_failure() -> None:
    workers, running, begun = Workers(concurrent=True), set[int](), threading.Event()

    def work(it: int) -> None:
        if it == 0:
            begun.wait(10)
            raise ValueError("the first")
        running.add(it)
        begun.set()
        time.sleep(0.05)
        running.discard(it)

    with pytest.raises(ValueError, match="the first"):
        list(workers.each(work, range(20)))
    assert not running
    workers.close()
