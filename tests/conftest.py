"""What all suites share: property tests that do the same in every run and ask nothing of the
machine's speed.

``pytest --hypothesis-profile=explore tests/unit`` tries new examples each time.
"""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator, Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import providers

_OBJECTS = 50_000  # new ones until the collector runs

# The examples are made again in a folder of their own where a test needs files: a fixture of the
# whole test is no hazard then.
_UNHURRIED = (HealthCheck.too_slow, HealthCheck.function_scoped_fixture)

settings.register_profile("explore", deadline=None, suppress_health_check=_UNHURRIED)
settings.register_profile(
    "same", parent=settings.get_profile("explore"), derandomize=True, database=None
)
# Whether a test fails is all that a mutation asks: the smallest example is not searched for.
settings.register_profile(
    "mutation", parent=settings.get_profile("same"), phases=(Phase.explicit, Phase.generate)
)
settings.load_profile("same")

# As cnibench itself does.
os.environ["PATH"] = os.pathsep.join(
    (os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin")
)

# A job that a script starts in the background ignores SIGINT, and so would every program that it
# starts (POSIX, asynchronous lists).
signal.signal(signal.SIGINT, signal.default_int_handler)
for _number in (signal.SIGQUIT, signal.SIGHUP):
    signal.signal(_number, signal.SIG_DFL)


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """The same examples: Hypothesis takes some from the literals of the modules of ours that are
    imported by then, which are others in each worker and order of tests. On a fresh machine, it
    also parses all of them first.
    """
    if settings().derandomize:
        none = providers._local_constants
        providers._get_local_constants = lambda: none


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Without the garbage collector: what is imported and collected stays to the end, and no test
    waits for it to be looked at again, nor after each few objects of its own.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(_OBJECTS)
        gc.enable()


class _Turned(pytest.Dir):
    """A folder in which each worker begins with another file: what one of them has compiled, the
    others find. On a fresh machine, all of them would compile the same file at the same time.
    """

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        found = list(super().collect())
        worker = self.config.workerinput  # type: ignore[attr-defined]
        first = len(found) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
        return found[first:] + found[:first]


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Dir | None:
    """tests/unit/conftest.py puts the tests back into order: xdist wants the same one of all."""
    if path != Path(__file__).parent / "unit" or not hasattr(parent.config, "workerinput"):
        return None
    return _Turned.from_parent(parent, path=path)


def pytest_unconfigure() -> None:
    """Compiled libraries complain of what is not collected at the interpreter's end."""
    gc.unfreeze()
