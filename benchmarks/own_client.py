"""Resolution of the field's tools that are paused, beside that of a client of our own that is told
over a pipe when to run (own_client.c, compiled by cc).

    python benchmarks/own_client.py [--cluster lab|kind] [--profiles veth-baseline,flannel]
        [--workload tcp-rr] [--placement inter] [--seconds 10] [--parts 6] [--set PROFILE.KEY=VALUE]
        [--param KEY=VALUE]

Both drive the same deployments of two profiles, with both ends on one CPU and at real-time
priority, in rounds of the same slices and lead-ins, and take turns, PARTS times. The resolution is
the half width of the 95 % interval of the log ratio of the profiles. Precision grows with the
square root of time, so half width^2 x seconds is compared; the seconds are those of the rounds.
What our client does not do, only the paused tools are measured with (http). Needs root; kind also
needs kubectl, helm, podman and the images of ``cnibench images build``.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from _ratios import log_ratio

from cnibench.model.cell import Cell
from cnibench.model.profile import builtin
from cnibench.registry import provider
from cnibench.run.sample_context import SampleContext
from cnibench.run.slices.engine import LEAD_IN, LENGTH, drive
from cnibench.run.slices.generator import Generator
from cnibench.run.slices.priority import CLIENT, SERVER, ahead, raised
from cnibench.run.slices.rounds import FEWEST
from cnibench.run.slices.slice import Slice, order
from cnibench.testbed.capabilities.pods.entered import EnteredPods
from cnibench.testbed.cluster import Options

OURS = {"tcp-rr": "rr", "tcp-stream": "stream"}
PORT = 23456
WAIT = 10.0  # s that a program of ours may take to start or end

Rounds = Callable[[int, int], tuple[list[Slice], float]]
"""(number of rounds, part) to (slices, s of the rounds)."""


def compiled(folder: Path) -> str:
    program = folder / "own_client"
    source = Path(__file__).with_name("own_client.c")
    subprocess.run(["cc", "-O2", "-static", "-o", program, source], check=True)
    return str(program)


@contextmanager
def paused(contexts: Mapping[str, SampleContext]):
    """The tools that cnibench uses, stopped outside their turns."""
    with ExitStack() as running:
        generators = {}
        for label, s in contexts.items():
            generator = Generator(s, provider("workloads", s.cell.workload).load(s.cell))
            generators[label] = running.enter_context(generator)

        def rounds(count: int, part: int) -> tuple[list[Slice], float]:
            driven = drive(generators, count, part, 1)
            for error in driven.failed.values():
                raise error
            return driven.slices, driven.wall

        yield rounds


def started(s: SampleContext, who: str, argv: list[str]) -> subprocess.Popen[str]:
    """A program of ours in the network namespace of one end, pinned as the tools are."""
    pod, cpu = (s.client, s.client_cpu) if who == "client" else (s.server, s.server_cpu)
    with pod.entered():  # a child has the namespace of the thread that starts it
        return subprocess.Popen(
            ["taskset", "-c", str(cpu), *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )


@contextmanager
def told(program: str, contexts: Mapping[str, SampleContext]):
    """Our own client, told over a pipe."""
    with ExitStack() as running:
        clients = {}
        for label, s in contexts.items():
            kind = OURS[s.cell.workload]
            server = started(s, "server", [program, "server", str(PORT), kind])
            running.callback(server.wait, WAIT)
            running.callback(server.kill)
            assert server.stdout is not None
            if not server.stdout.readline():
                raise SystemExit("our server did not start")
            address = s.server.addresses[4]
            clients[label] = started(s, "client", [program, "client", address, str(PORT), kind])
            running.callback(clients[label].wait, WAIT)
            running.callback(clients[label].kill)
            for pid, priority in ((server.pid, SERVER), (clients[label].pid, CLIENT)):
                if refused := raised([pid], priority):
                    raise SystemExit(refused)

        def rounds(count: int, part: int) -> tuple[list[Slice], float]:
            with ahead():
                return told_rounds(clients, count, part)

        yield rounds


def told_rounds(
    clients: Mapping[str, subprocess.Popen[str]], count: int, part: int
) -> tuple[list[Slice], float]:
    slices = []
    began = time.monotonic()
    for number in range(count):
        for label in order(sorted(clients), number, part, 1):
            client = clients[label]
            assert client.stdin is not None
            assert client.stdout is not None
            at = time.monotonic()
            client.stdin.write(f"{round(LEAD_IN * 1e9)} {round(LENGTH * 1e9)}\n")
            client.stdin.flush()
            units, ns = map(int, client.stdout.readline().split())
            slices.append(Slice(number, label, at - began, LENGTH, ns / 1e9, units, 0.0, None, 0.0))
    return slices, time.monotonic() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster", choices=["lab", "kind"], default="lab")
    parser.add_argument("--profiles", default="veth-baseline,flannel")
    parser.add_argument("--workload", default="tcp-rr")
    parser.add_argument("--placement", choices=["intra", "inter"], default="inter")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--set", action="append", default=[], help="as that of cnibench run")
    parser.add_argument("--param", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--parts", type=int, default=6)
    asked = parser.parse_args()
    one, other = profiles = asked.profiles.split(",")
    workload = provider("workloads", asked.workload)
    cells = {
        name: Cell(
            label=name,
            profile=name,
            placement=asked.placement,
            workload=asked.workload,
            params=workload.params(dict(one.split("=", 1) for one in asked.param)),
            priority="real-time",
        )
        for name in profiles
    }
    cluster = provider("clusters", asked.cluster)
    print(
        f"kernel {platform.release()}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} (1"
        f" min), {asked.cluster}, {asked.workload} {asked.placement}, {one} to {other}"
    )
    settings: dict[str, dict[str, str]] = {}
    for one_setting in asked.set:
        name, value = one_setting.split("=", 1)
        profile, key = name.split(".", 1)
        settings.setdefault(profile, {})[key] = value
    return cluster.carry(lambda: compare(cluster(Options(settings=settings)), cells, asked))


def compare(made, cells: Mapping[str, Cell], asked: argparse.Namespace) -> int:  # type: ignore[no-untyped-def]
    one, other = cells
    count = max(FEWEST, round(asked.seconds / asked.parts / len(cells) / (LENGTH + LEAD_IN)))
    with made as cluster, tempfile.TemporaryDirectory() as folder, ExitStack() as running:
        contexts = {}
        for label, cell in cells.items():
            deployment = cluster.install(label, builtin()[cell.profile])
            if asked.cluster == "lab":
                running.callback(deployment.remove)
            ((client, server),) = deployment.pairs_for([cell])
            if isinstance(deployment, EnteredPods):
                client, server = deployment.entered([client, server])
            raw = Path(folder, label)
            raw.mkdir()
            cpu = max(os.sched_getaffinity(0))
            contexts[label] = SampleContext(
                cell, 0, deployment, client, server, 1.0, 0.0, raw, cpu, cpu
            )
        arms: dict[str, Rounds] = {"paused": running.enter_context(paused(contexts))}
        if asked.workload in OURS:
            program = compiled(Path(folder))
            arms["own"] = running.enter_context(told(program, contexts))
        slices: dict[str, list[Slice]] = {arm: [] for arm in arms}
        spent = dict.fromkeys(arms, 0.0)
        for part in range(asked.parts):
            for arm in order([*arms], part, 0, 1):
                its, wall = arms[arm](count, part)
                slices[arm] += [replace(piece, round=piece.round + part * count) for piece in its]
                spent[arm] += wall
        cost = {}
        for arm, its in slices.items():
            ratio, half = log_ratio(its, other, one)
            cost[arm] = half**2 * spent[arm]
            rates = sorted(piece.rate for piece in its if piece.cell == one)
            scale = "k/s" if asked.workload != "tcp-stream" else "MB/s"
            divisor = 1e3 if scale == "k/s" else 1e6
            print(
                f"{arm:7}: {math.exp(ratio):.4f} ± {half:.2%} in {spent[arm]:.1f} s"
                f" ({len(its) // 2} rounds), ± {math.sqrt(cost[arm]):.2%} in 1 s;"
                f" {one} {rates[len(rates) // 2] / divisor:.1f} {scale}"
            )
        if len(cost) == 2:
            print(
                "for the same half width the paused tool takes"
                f" {cost['paused'] / cost['own']:.2f} times as long as our client"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
