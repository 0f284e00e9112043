"""Every parser and importer on mutations of real output: a result with finite numbers or a typed
error, and in time.

All of them share CNIBENCH_FUZZ_SECONDS (default 10); with CNIBENCH_FUZZ_INPUTS each gets so many
inputs instead; with both, so many or what its share of the time allows. No input may take more than
5 s of CPU time or 2 GiB of memory. CNIBENCH_FUZZ_SEED (default 1) chooses the mutations: input
number n of a parser is the same in every run with that seed.
"""

from __future__ import annotations

import math
import os
import random
import resource
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pytest

from tests.fuzz.targets import TARGETS, Target

SECONDS = float(os.environ.get("CNIBENCH_FUZZ_SECONDS", "10"))
TIMED = "CNIBENCH_FUZZ_SECONDS" in os.environ
INPUTS = int(os.environ.get("CNIBENCH_FUZZ_INPUTS", "0"))
SEED = os.environ.get("CNIBENCH_FUZZ_SEED", "1")
_LONGEST = 5.0  # s of CPU time for one input: none of them has more than some hundred kB
_ROOM = 2 << 30  # bytes that a parser may take beside what the process has
_LEAST = 30  # inputs, however little time there is


class TooLong(BaseException):
    """No parser may catch it."""


@contextmanager
def limited() -> Iterator[None]:
    """Raises TooLong after so much CPU time of this process, and MemoryError beyond ``_ROOM``."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TooLong

    before = signal.signal(signal.SIGPROF, stop)
    most = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    room = pages * resource.getpagesize() + _ROOM
    resource.setrlimit(resource.RLIMIT_AS, (room, most[1]))
    signal.setitimer(signal.ITIMER_PROF, _LONGEST)
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, most)
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def strange(value: Any) -> Any:
    """A number in it that is not finite, None when there is none."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, float) and not math.isfinite(one):
            return one
        if isinstance(one, dict):
            left += [*one, *one.values()]
        elif isinstance(one, list | tuple | set | frozenset):
            left += one
        elif is_dataclass(one) and not isinstance(one, type):
            left += [getattr(one, field.name) for field in fields(one)]
        elif isinstance(one, msgspec.Struct):
            left += [getattr(one, name) for name in one.__struct_fields__]
    return None


def attempt(name: str, target: Target, number: int, seeds: list[Any]) -> None:
    """Input ``number`` of that parser. Fails with the input when the parser does anything that it
    may not.
    """
    at = random.Random(f"{SEED}/{name}/{number}")
    given = target.change(at.choice(seeds), at)
    try:
        with limited():
            found = target.parse(given)
    except target.allowed as error:
        if error.message:
            return
        raise AssertionError(f"{name}, input {number} of seed {SEED}: no message") from error
    except (Exception, TooLong) as error:
        shown = repr(given)
        raise AssertionError(
            f"{name}, input {number} of seed {SEED}: {type(error).__name__}:"
            f" {error}\n{shown[:3000]}"
        ) from error
    wrong = strange(found)
    assert wrong is None, (
        f"{name}, input {number} of seed {SEED}: {wrong} in {found!r:.2000} from {given!r:.2000}"
    )


def more(number: int, seconds: float) -> bool:
    """Is there to be another input after so many in so many seconds?"""
    in_time = seconds < SECONDS / len(TARGETS)
    if INPUTS:
        return number < INPUTS and (in_time or not TIMED)
    return number < _LEAST or in_time


@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", TARGETS)
def test_a_result_or_a_typed_error(name: str, record_property: Any) -> None:
    target = TARGETS[name]
    seeds = list(target.seeds())
    for seed in seeds:
        try:
            target.parse(seed)  # what was really printed is read, or is an error of the tool
        except target.allowed:
            continue
    began, number = time.monotonic(), 0
    while more(number, time.monotonic() - began):
        attempt(name, target, number, seeds)
        number += 1
    record_property("inputs", number)
    record_property("seconds", time.monotonic() - began)
    took = time.monotonic() - began
    print(f"{name}: {number} inputs, {took:.1f} s", file=sys.stderr, flush=True)


def test_the_oracle_sees_what_it_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parser that raises something else, gives NaN, hangs or takes all memory is found."""
    monkeypatch.setitem(globals(), "_LONGEST", 0.5)  # s, of the one that hangs

    def hang(_: Any) -> None:
        while True:
            pass

    def grow(_: Any) -> int:
        return len(bytes(3 << 30))

    for parse in (lambda _: 1 / 0, lambda _: {"a": [float("nan")]}, hang, grow):
        with pytest.raises(AssertionError):
            attempt("x", Target(lambda: ["a"], lambda text, at: text, parse), 0, ["a"])
