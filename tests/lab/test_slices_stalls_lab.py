"""Programs that are really stopped, frozen, or continued outside their turn while slices are
measured.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.run.checks.stalls import disturbed as stalls_disturbed
from cnibench.run.slices.engine import Driven, drive
from cnibench.run.slices.evidence import evidence
from cnibench.run.slices.generator import Generator
from cnibench.run.slices.priority import ahead
from cnibench.run.slices.readings.clocks import Clocks
from cnibench.run.slices.rounds import disturbed
from tests.lab._samples import context
from tests.lab.test_slices_lab import LONGER, load_of

MakeDeployment = Callable[..., LabDeployment]
ROUNDS = 15


@pytest.fixture
def generators(make_deployment: MakeDeployment, tmp_path: Path) -> Iterator[dict[str, Generator]]:
    cpu = max(os.sched_getaffinity(0))
    with ExitStack() as running:
        made = {}
        for name in ("one", "two"):
            folder = tmp_path / name
            folder.mkdir()
            s = context(
                make_deployment("veth-baseline"), "tcp-rr", folder, placement="inter", cpu=cpu
            )
            made[name] = running.enter_context(Generator(s, load_of(s)))
        yield made


def marks(driven: Driven, cell: str) -> list[bool]:
    return disturbed([one for one in driven.slices if one.cell == cell])


def reason(driven: Driven, cell: str) -> str:
    own = [one for one in driven.slices if one.cell == cell]
    return stalls_disturbed(evidence(own, driven.wall, driven.share, cpus=1))


@contextmanager
def with_quota() -> Iterator[Callable[[bool], None]]:
    """This process and those that it starts meanwhile in a cgroup; what is yielded makes them have
    a twentieth of a CPU, or as much as they want.
    """
    old = Path("/sys/fs/cgroup/cpu")
    root = old if (old / "cgroup.procs").exists() else Path("/sys/fs/cgroup")
    group = root / f"cnibench-test-quota-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made in {root}: {error.strerror}")
    control, whole, part = (
        ("cpu.cfs_quota_us", "-1", "5000") if root == old else ("cpu.max", "max 100000", "5000")
    )
    try:
        if not (group / control).exists():
            pytest.skip(f"cgroups in {root} have no CPU quota ({control})")
        before = next(
            line.rpartition(":")[2]
            for line in Path("/proc/self/cgroup").read_text().splitlines()
            if (":cpu:" in line or ":cpu," in line if root == old else line.startswith("0::"))
        )
        (group / "cgroup.procs").write_text(str(os.getpid()))
        try:
            yield lambda held: (group / control).write_text(part if held else whole) and None
        finally:
            (group / control).write_text(whole)
            (root / before.strip("/") / "cgroup.procs").write_text(str(os.getpid()))
    finally:
        until = time.monotonic() + 10
        while time.monotonic() < until and (group / "cgroup.procs").read_text():
            time.sleep(0.05)
        group.rmdir()


def client(generator: Generator) -> int:
    assert generator._client is not None
    return generator._client.pid


@contextmanager
def signalling(pid: int, number: signal.Signals, every: float) -> Iterator[None]:
    ended = threading.Event()

    def work() -> None:
        with ahead():  # on a busy machine it would come now and then only
            while not ended.wait(every):
                os.kill(pid, number)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_nothing_is_seen_where_nothing_is_stopped(generators: dict[str, Generator]) -> None:
    driven = drive(generators, ROUNDS, 0, 1, length=LONGER)
    assert driven.failed == {}
    assert not any(one.stops or one.beside for one in driven.slices)
    assert {reason(driven, cell) for cell in generators} == {""}


def test_a_client_that_others_stop_in_its_turn(generators: dict[str, Generator]) -> None:
    with signalling(client(generators["two"]), signal.SIGSTOP, 0.015):
        driven = drive(generators, ROUNDS, 0, 1, length=LONGER)
    assert "netperf was stopped for" in reason(driven, "two")
    assert reason(driven, "one") == ""
    assert sum(marks(driven, "two")) > ROUNDS / 2


def test_a_client_that_others_continue_spoils_the_slices_of_the_other(
    generators: dict[str, Generator],
) -> None:
    """From the first round on: before it, the engine measures how long stopping a client takes.

    Which of two clients of one priority has the CPU is the scheduler's choice, for up to 100 ms
    (sched_rr_timeslice_ms): in about half of the turns the other one gets nothing, and harms none.
    """
    with ExitStack() as running:

        def after(done: int, _: object) -> None:
            if done == 1:
                running.enter_context(signalling(client(generators["two"]), signal.SIGCONT, 0.004))

        driven = drive(generators, ROUNDS, 0, 1, length=LONGER, after=after)
    assert sum(marks(driven, "one")) > ROUNDS / 5
    assert any(one.beside for one in driven.slices if one.cell == "one")


def test_a_server_whose_cgroup_is_frozen(generators: dict[str, Generator]) -> None:
    freezer = Path("/sys/fs/cgroup/freezer")
    if not (freezer / "cgroup.procs").exists():
        freezer = Path("/sys/fs/cgroup")
    if not (freezer / "cgroup.procs").exists():
        pytest.skip("no cgroups here")
    group = freezer / f"cnibench-test-slices-stalls-{os.getpid()}"
    group.mkdir()
    old = (group / "freezer.state").exists()
    control = group / ("freezer.state" if old else "cgroup.freeze")
    server = generators["two"].s.server.run(["readlink", "/proc/self/ns/net"], timeout=5)
    pids = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            inside = os.readlink(path / "ns/net") == server.stdout.strip()
            if inside and (path / "comm").read_text() == "netserver\n":
                pids.append(path.name)
        except OSError:
            continue

    def after(done: int, _: object) -> None:
        if done == 5:
            control.write_text("FROZEN" if old else "1")
        if done == 10:
            control.write_text("THAWED" if old else "0")
            time.sleep(0.1)

    try:
        for pid in pids:
            (group / "cgroup.procs").write_text(pid)
        driven = drive(generators, ROUNDS, 0, 1, length=LONGER, after=after)
    finally:
        control.write_text("THAWED" if old else "0")
        for pid in pids:
            (freezer / "cgroup.procs").write_text(pid)
        group.rmdir()
    assert pids
    assert "netserver was frozen for" in reason(driven, "two")
    assert reason(driven, "one") == ""
    assert marks(driven, "two")[5:10] == [True] * 5


def test_a_daemon_of_the_datapath_that_is_stopped(
    make_deployment: MakeDeployment, tmp_path: Path
) -> None:
    cpu = max(os.sched_getaffinity(0))
    deployments = {"one": make_deployment("flannel-udp"), "two": make_deployment("veth-baseline")}
    daemon = min(deployments["one"].processes().values())
    with ExitStack() as running:
        generators = {}
        for name, deployment in deployments.items():
            s = context(deployment, "tcp-rr", tmp_path / name, placement="inter", cpu=cpu)
            generators[name] = running.enter_context(Generator(s, load_of(s)))
        running.callback(os.kill, daemon, signal.SIGCONT)

        def after(done: int, _: object) -> None:
            if done == 5:
                os.kill(daemon, signal.SIGSTOP)
                time.sleep(0.1)
            if done == 8:
                os.kill(daemon, signal.SIGCONT)

        driven = drive(generators, ROUNDS, 0, 1, length=LONGER, after=after)
        name = Path(f"/proc/{daemon}/comm").read_text().strip()
    assert driven.failed == {}
    assert f"{name} was stopped for" in reason(driven, "one")
    assert marks(driven, "one")[5:8] == [True] * 3
    assert reason(driven, "two") == ""


def test_what_another_program_used_is_in_the_sample(
    generators: dict[str, Generator], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At least half of what it ran in the cell's turns: on a busy machine others run as well, and
    the kernel's figures have steps of 10 ms.
    """
    generator = generators["one"]
    resume, pause, ran = generator.resume, generator.pause, list[int]()
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        clock = Clocks([busy.pid])

        def begin() -> None:
            resume()
            ran.append(-clock.read()[0])

        def end() -> None:
            ran.append(clock.read()[0])
            pause()

        monkeypatch.setattr(generator, "resume", begin)
        monkeypatch.setattr(generator, "pause", end)
        driven = drive({"one": generator}, 3 * ROUNDS, 0, 1, length=LONGER)
        clock.close()
        busy.kill()
    seen = evidence(driven.slices, driven.wall, driven.share, cpus=1)
    if any(one.others is None for one in driven.slices):
        pytest.skip("a reading of /proc/stat takes long here")
    assert seen.others is not None
    assert seen.slices is not None
    assert seen.others * seen.slices > sum(ran[-6 * ROUNDS :]) / 2e9


def test_slices_that_a_cpu_quota_holds_back(
    make_deployment: MakeDeployment, tmp_path: Path
) -> None:
    cpu = max(os.sched_getaffinity(0))
    s = context(make_deployment("veth-baseline"), "tcp-rr", tmp_path, placement="inter", cpu=cpu)
    s = replace(s, cell=msgspec.structs.replace(s.cell, priority="normal"))
    with with_quota() as hold, Generator(s, load_of(s)) as generator:

        def after(done: int, _: object) -> None:
            hold(5 <= done < 10)
            time.sleep(0.2)  # a period of the quota, and what is left of the one before

        driven = drive({"one": generator}, ROUNDS, 0, 1, length=LONGER, after=after)
    assert driven.failed == {}
    held = [one.throttled for one in driven.slices]
    assert held[:5] == held[10:] == [0.0] * 5
    assert sum(one is not None and one > 0.01 for one in held[5:10]) >= 2, held
    for one, bad in zip(driven.slices, marks(driven, "one"), strict=True):
        assert bad or (one.throttled or 0.0) <= 0.25 * LONGER
    assert "a CPU quota held its programs back for" in reason(driven, "one")
