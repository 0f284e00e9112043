"""True histograms of super-packet sizes, by a packet socket that takes a random few: in cpp windows, before perf begins.

A packet socket makes the kernel clone each packet of its device. So speed windows never have one, and this module's name sorts
before perf's: collectors are entered in that order, and the socket is closed again before the next one is entered.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cnibench.cluster import Cluster
from cnibench.collector import Collector
from cnibench.collectors.sizes import path
from cnibench.errors import CnibenchError, MeasureError
from cnibench.situation import Findings, Situation

_PROGRAM = Path(__file__).parent / "_lengths.py"
_SECONDS = 0.2
_SHARE = 16  # one packet in so many is taken
_LIMIT = 10.0


class Lengths(Collector):
    name = "lengths"
    title = f"histograms of super-packet sizes: one packet in {_SHARE}, for {_SECONDS} s at the beginning of cpp windows"
    windows = ("cpp",)

    def missing(self, cluster: Cluster) -> str:
        """It runs a program of ours where the devices are; a cluster's nodes have no Python for it."""
        return "" if cluster.testbed in ("lab", "vm") else "histograms of packet sizes need Python on the nodes; means are reported"

    @contextmanager
    def observe(self, s: Situation, into: Findings) -> Iterator[None]:
        """Adds one ``sizes`` record a device and direction: {device, node, at, direction, histogram{upper bound: count}, packets}."""
        points = path(s)
        argv = [sys.executable, "-I", "-S", "-c", _PROGRAM.read_text()]
        files = [(s.raw / f"lengths.{at}.json", s.raw / f"lengths.{at}.err") for at, _, _ in points]
        started = []
        try:
            for (_, place, device), (out, err) in zip(points, files, strict=True):
                started.append(place.spawn([*argv, device, str(_SECONDS), str(_SHARE)], stdout=out, stderr=err))
            for process, (at, _, device), (_, err) in zip(started, points, files, strict=True):
                if process.wait(_LIMIT) != 0:
                    said = err.read_text(errors="replace").strip().splitlines()[-1:]
                    raise MeasureError(f"the sizes of packets at {at} ({device}) could not be read: {''.join(said)}", "needs CAP_NET_RAW")
        finally:
            for process in started:
                process.kill()
        for (at, place, device), (out, _) in zip(points, files, strict=True):
            into.records += [("sizes", {"device": device, "node": place.name, "at": at, **line}) for line in parse(out.read_text())]
        yield


def parse(text: str) -> list[dict[str, Any]]:
    """What the sampler printed: for each direction {direction, packets (sampled), histogram{upper bound in bytes: packets}}."""
    try:
        lengths = json.loads(text)
        return [
            {"direction": direction, "packets": sum(counts.values()), "histogram": histogram(counts)}
            for direction, counts in lengths.items()
            if counts
        ]
    except (ValueError, AttributeError, TypeError) as error:
        raise CnibenchError(
            f"the sampler of packet sizes printed something else than its histogram: {error}", "see the sample's raw folder"
        ) from None


def histogram(counts: dict[str, int]) -> dict[str, int]:
    """Lengths in bytes and how often, as powers of two: the key is the least power of two that is not below the length."""
    found: dict[int, int] = {}
    for length, count in counts.items():
        bound = 1 << max(int(length) - 1, 0).bit_length()
        found[bound] = found.get(bound, 0) + count
    return {str(bound): found[bound] for bound in sorted(found)}


PROVIDER = Lengths()
