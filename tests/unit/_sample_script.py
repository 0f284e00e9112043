"""The course of a sample by a clock that only its steps advance."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cnibench.errors import MeasureError
from cnibench.model.cell import Cell, Reading
from cnibench.run.checks.stalls import Evidence
from cnibench.run.sample_context import Measurements, SampleContext
from cnibench.run.windows import sample


@dataclass
class Script:
    """What happens: ``log`` has it in order; the other fields say how it goes."""

    folder: Path
    now: float = 1000.0
    log: list[tuple[Any, ...]] = field(default_factory=list)
    reading: float = 0.0  # s that reading the congestion control takes
    opening: float = 0.0  # s that collectors take to begin
    waiting: float = 0.0  # s that a client goes on after its window
    status: int = 0
    port: int = 0
    said: str = "cubic"
    ended: int | None = None  # the status of a client that has ended before it is waited for
    evidence: Evidence = field(default_factory=lambda: Evidence(1.0, others=0.5))
    fault: tuple[str, int] = ("", -1)  # a step, and the pair in which it fails
    error: Exception = field(default_factory=lambda: MeasureError("broken", "mend it"))
    spans: Any = None
    threads: dict[str, set[str]] = field(default_factory=dict)
    closed: list[tuple[int, Any]] = field(default_factory=list)

    def step(self, what: str, s: SampleContext, *more: Any) -> None:
        self.log.append((what, s.cell.pair, *more))
        self.threads.setdefault(what, set()).add(threading.current_thread().name)
        if (what, s.cell.pair) == self.fault:
            raise self.error

    def context(self, pair: int = 0, **more: Any) -> SampleContext:
        raw = self.folder / f"raw{pair}"
        raw.mkdir(exist_ok=True)
        params = more.pop("params", {"size": 1})
        cell = Cell(
            label="x", profile="p", placement="intra", workload="w", params=params, pair=pair
        )
        given: dict[str, Any] = {
            "cell": cell,
            "block": 0,
            "deployment": "the deployment",
            "client": SimpleNamespace(name=f"client {pair}", local=True, of_lab=True),
            "server": SimpleNamespace(name=f"server {pair}"),
            "duration": 10.0,
            "warmup": 1.0,
            "raw": raw,
            "client_cpu": 3,
            "server_cpu": None,
        }
        return SampleContext(**{**given, **more})

    @contextlib.contextmanager
    def between(self, what: str, s: SampleContext) -> Iterator[None]:
        self.step(what, s)
        yield
        self.step(f"end {what}", s)

    # What a deployment has for conditions.
    @contextlib.contextmanager
    def apply_conditions(self, asked: Any, client: Any, server: Any, cell: Cell) -> Iterator[Any]:
        self.log.append(("conditions", cell.pair, client.name, server.name))
        yield [{"pods": asked.offload.pods}]


class Client:
    argv = ("tool", "-x")

    def __init__(self, script: Script, s: SampleContext) -> None:
        self._script, self._s = script, s
        self.pid = 4000 + s.cell.pair

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self._script.step("end start", self._s)

    def watch(self, seconds: float) -> None:
        self._script.step("watch", self._s, round(seconds, 9))
        self._script.now += seconds

    def wait(self, limit: float) -> int:
        self._script.step("wait", self._s, round(limit, 9))
        self._script.now += self._script.waiting
        return self._script.status

    def poll(self) -> int | None:
        return self._script.ended


class Workload:
    collected = alone = True
    primary = "latency_p50"  # no rate, so that no clock is read
    counts: tuple[str, ...] = ()

    def __init__(self, script: Script) -> None:
        self.script = script

    def longest(self, params: dict[str, Any], duration: float) -> float:
        assert params["size"] == 1
        return 1.5 * duration

    def serve(self, s: SampleContext) -> Any:
        return self.script.between("serve", s)

    def warm_up(self, s: SampleContext) -> None:
        self.script.step("warm up", s)

    def start(self, s: SampleContext) -> Client:
        self.script.step("start", s, s.duration)
        return Client(self.script, s)

    def data_port(self, s: SampleContext) -> int:
        return self.script.port + s.cell.pair if self.script.port else 0

    def measurements(self, s: SampleContext) -> Measurements:
        self.script.step("measurements", s)
        return Measurements([Reading(metric="throughput", value=7.0)], [("sizes", {"n": 1})])


class Collector:
    def __init__(self, script: Script, name: str = "packets") -> None:
        self.script, self.name = script, name

    def prepare(self, s: SampleContext) -> Any:
        return self.script.between(f"prepare {self.name}", s)

    @contextlib.contextmanager
    def observe(self, s: SampleContext, into: Measurements) -> Iterator[None]:
        self.script.step(f"observe {self.name}", s)
        self.script.now += self.script.opening
        try:
            yield
        except BaseException as error:
            self.script.closed.append((s.cell.pair, type(error)))
            raise
        self.script.step(f"read {self.name}", s)
        into.readings.append(Reading(metric=self.name, value=float(s.cell.pair)))
        into.records.append((self.name, {"pair": s.cell.pair}))


def scripted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    """A script by whose clock the course of samples goes from now on."""
    it = Script(folder)

    @contextlib.contextmanager
    def watch(pairs: Any) -> Iterator[Any]:
        it.log.append(("hearts", [s.cell.pair for s in pairs]))

        def evidence(spans: Any) -> list[Evidence]:
            it.spans = spans
            it.log.append(("evidence",))
            return [it.evidence for _ in spans]

        yield SimpleNamespace(await_ready=lambda: it.log.append(("ready",)), evidence=evidence)

    def of_sample(s: SampleContext, port: int, seen: float, over: Callable[[], bool]) -> str:
        it.step("congestion", s, port, seen)
        it.now += it.reading
        assert over() == (it.ended is not None)
        return it.said

    def check_pinned(pid: int, cpu: int, what: str) -> None:
        it.log.append(("pinned", pid - 4000, cpu, what))
        if ("pinned", pid - 4000) == it.fault:
            raise it.error

    monkeypatch.setattr(sample, "watch", watch)
    monkeypatch.setattr(sample, "inside", lambda: "kvm")
    monkeypatch.setattr(sample, "now", lambda: f"at {it.now - 1000:g}")
    monkeypatch.setattr(sample, "time", SimpleNamespace(monotonic=lambda: it.now))
    monkeypatch.setattr(sample.congestion, "of_sample", of_sample)
    monkeypatch.setattr(sample, "check_pinned", check_pinned)
    monkeypatch.setattr(sample, "priority_of", lambda pid: "real-time")
    monkeypatch.setattr(sample, "CellConditions", SimpleNamespace(of=lambda deployment: it))
    return it


def measure_one(script: Script, workload: Workload | None = None, **more: Any) -> Any:
    return sample.measure(
        script.context(**more),
        workload or Workload(script),
        [Collector(script)],  # type: ignore[arg-type, list-item]
    )
