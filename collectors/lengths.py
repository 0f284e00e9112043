"""True histograms of super-packet sizes, by a packet socket that takes a random few: in cpp
windows, before perf begins.

A packet socket makes the kernel clone each packet of its device. So speed windows never have one,
and this module's name sorts before perf's: collectors are entered in that order, and the socket is
closed again before the next one is entered.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from cnibench.collectors.sizes import path
from cnibench.errors import MeasureError
from cnibench.run.collector import Collector
from cnibench.run.sample_context import Measurements, SampleContext
from cnibench.system.process import Process

_PROGRAM = Path(__file__).parent / "_lengths.py"
_PART, _LEAST, _MOST = (
    0.01,
    0.02,
    0.1,
)  # of a window, but so many seconds: each packet is cloned meanwhile
_SHARE = 16  # one packet in so many is taken
_LIMIT = 20.0  # s: for a sampler to start, and to end


class Lengths(Collector):
    name = "lengths"
    title = (
        f"histograms of super-packet sizes: one packet in {_SHARE}, in the first {_PART:.0%} of cpp"
        " windows"
    )
    windows = ("cpp",)

    def __init__(self) -> None:
        self._started: dict[Path, list[Process]] = {}

    @contextmanager
    def prepare(self, s: SampleContext) -> Iterator[None]:
        """Starts the samplers, which then wait: an interpreter's start is no part of the window."""
        program = _PROGRAM.read_text()
        seconds = min(max(_PART * s.duration, _LEAST), _MOST)
        with ExitStack() as running:
            for at, place, device in path(s):
                argv = [place.python, "-I", "-S", "-c", program, device, str(seconds), str(_SHARE)]
                process = place.spawn(argv, stdout=_file(s, at, "json"), stderr=_file(s, at, "err"))
                self._started.setdefault(s.raw, []).append(running.enter_context(process))
            try:
                limit = time.monotonic() + _LIMIT
                for (at, _, device), process in zip(
                    path(s), self._started.get(s.raw, []), strict=True
                ):
                    while not _file(s, at, "err").read_text().startswith("ready"):
                        if process.poll() is not None or time.monotonic() > limit:
                            raise _unreadable(s, at, device)
                        time.sleep(0.01)
                yield
            finally:
                self._started.pop(s.raw, None)

    @contextmanager
    def observe(self, s: SampleContext, into: Measurements) -> Iterator[None]:
        """Adds one ``sizes`` record a device and direction: {device, node, at, direction,
        histogram{upper bound: count}, packets, largest}; and ``largest_packet`` of those that the
        Pod sent, with link header.
        """
        points, started = path(s), self._started.get(s.raw, [])
        for process in started:
            process.interrupt()
        for process, (at, place, device) in zip(started, points, strict=True):
            if process.wait(_LIMIT) != 0:
                raise _unreadable(s, at, device)
            lines = parse(_file(s, at, "json").read_text())
            into.records += [
                ("sizes", {"device": device, "node": place.name, "at": at, **line})
                for line in lines
            ]
            for line in lines:
                if (at, line["direction"]) == ("pod", "sent"):
                    into.add("largest_packet", line["largest"], at=at, direction="sent")
        yield


def _file(s: SampleContext, at: str, kind: str) -> Path:
    return s.raw / f"lengths.{at}.{kind}"


def _unreadable(s: SampleContext, at: str, device: str) -> MeasureError:
    said = _file(s, at, "err").read_text(errors="replace").strip().splitlines()[-1:]
    return MeasureError(
        f"the sizes of packets at {at} ({device}) could not be read: {''.join(said)}",
        "it needs CAP_NET_RAW",
    )


def parse(text: str) -> list[dict[str, Any]]:
    """What the sampler printed: for each direction {direction, packets (sampled), histogram{upper
    bound in bytes: packets}, largest (bytes)}.
    """
    try:
        lengths = json.loads(text)
        return [
            {
                "direction": direction,
                "histogram": (shape := histogram(counts)),
                "packets": sum(shape.values()),
                "largest": max(map(int, counts)),
            }
            for direction, counts in lengths.items()
            if counts
        ]
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise MeasureError(
            f"the sampler of packet sizes did not print its histogram: {error}",
            "see the sample's raw folder",
        ) from None


def histogram(counts: dict[str, int]) -> dict[str, int]:
    """Lengths in bytes and how often, as powers of two: the key is the least power of two that is
    not below the length.
    """
    found: dict[int, int] = {}
    for length, count in counts.items():
        if not re.fullmatch(r"[0-9]{1,9}", length) or type(count) is not int or count < 0:
            raise ValueError(f"{str(count)[:40]} packets of {length[:40]!r} bytes")
        bound = 1 << max(int(length) - 1, 0).bit_length()
        found[bound] = found.get(bound, 0) + count
    return {str(bound): found[bound] for bound in sorted(found)}


PROVIDER = Lengths()
