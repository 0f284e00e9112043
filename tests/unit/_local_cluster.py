"""A real, tiny cluster for tests of the runner: this machine's loopback, with real programs as
client and server.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cnibench.errors import ClusterError, MeasureError
from cnibench.model.cell import Attestation, Cell
from cnibench.model.profile import Profile, Strict
from cnibench.run.collector import Collector
from cnibench.run.runner import Runner
from cnibench.run.sample_context import Measurements, SampleContext
from cnibench.run.workload import Workload
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import Manifest
from cnibench.rundir.writer import RunWriter
from cnibench.system.process import Done, Process, run, spawn
from cnibench.testbed.capabilities.quick_attestation import QuickAttestation
from cnibench.testbed.cluster import Cluster, Options
from cnibench.testbed.deployment import Deployment
from cnibench.testbed.place import Node, Pod
from tests._manifest import manifest as a_manifest

# Both start in milliseconds, and hundreds of them do.
CLIENT = """
trap '' PIPE
exec 3<>/dev/tcp/127.0.0.1/$1 || exit 1
end=$((${EPOCHREALTIME/[.,]/} + $2)) count=0
while ((${EPOCHREALTIME/[.,]/} < end)); do
    printf x >&3 && read -rn 1 -t 5 -u 3 || { echo "the server has gone" >&2; exit 1; }
    ((++count))
done
printf '{"rate": %d.0}' $((count * 1000000 / $2))
"""
SERVER = """
import _socket, os, time
listener = _socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
os.write(1, b"%d\\n" % listener.getsockname()[1])
while True:
    peer = _socket.socket(fileno=listener._accept()[0])
    while data := peer.recv(1):
        time.sleep(0.005)  # so many of these at once leave the CPUs to whoever counts on them
        try:
            peer.send(data)
        except OSError:
            break
"""


class Here:
    """A place: this machine."""

    name = "here"
    interface = "lo"
    addresses: Mapping[int, str] = {4: "127.0.0.1"}

    def spawn(
        self, argv: Sequence[str], *, stdout: Path | None = None, stderr: Path | None = None
    ) -> Process:
        return spawn(argv, stdout=stdout, stderr=stderr)

    def run(
        self, argv: Sequence[str], *, timeout: float, input: str | None = None, check: bool = True
    ) -> Done:
        return run(argv, timeout=timeout, input=input, check=check)

    def read_text(self, path: str) -> str:
        return Path(path).read_text()


class HerePod(Here, Pod):
    def __init__(self, node: Node) -> None:
        self.node = node


class HereNode(Here, Node):
    pass


class AttestedInFull(Deployment):
    """``changing`` ones are other than declared from the second attestation on."""

    fidelity = "baseline"

    def __init__(self, cluster: Local, label: str, profile: Profile) -> None:
        self.cluster, self.label, self.profile = cluster, label, profile
        self.dead = ""
        self.attested = self.verified = 0

    def pair(self, placement: Any, number: int = 0) -> tuple[Pod, Pod]:
        node = HereNode()
        return HerePod(node), HerePod(node)

    def pairs_for(self, cells: Sequence[Cell]) -> list[tuple[Pod, Pod]]:
        return [self.pair(cell.placement, cell.pair) for cell in cells]

    def nodes(self) -> tuple[Node, ...]:
        return (HereNode(),)

    def reset_state(self) -> None:
        """Nothing carries over."""

    def attest(self) -> list[Attestation]:
        self.attested += 1
        changed = self.label in self.cluster.changing and self.attested > 1
        passed = self.label not in self.cluster.lying and not changed
        return [self._check("address", "127.0.0.1", "127.0.0.1" if passed else "nothing")]

    def _check(self, name: str, expected: str, observed: str) -> Attestation:
        return Attestation(
            label=self.label,
            profile=self.profile.name,
            check=name,
            expected=expected,
            observed=observed,
            passed=observed == expected,
        )

    def remove(self) -> None:
        self.cluster.log.append(f"remove {self.label}")

    def alive(self) -> str:
        return self.dead


class LocalDeployment(AttestedInFull, QuickAttestation):
    def verify(self) -> list[Attestation]:
        """``changing`` ones are other than declared from the second comparison on."""
        self.verified += 1
        passed = self.label not in self.cluster.changing or self.verified < 2
        seen = "as declared" if passed else "other rules"
        return [self._check("kernel-state-a", "as declared", seen)]


class Local(Cluster):
    """``lying`` labels fail their attestation, ``broken`` ones their installation."""

    kind = "local"
    simultaneous = True
    testbed = "lab"
    wire = "none"
    deploys: type[AttestedInFull] = LocalDeployment

    def __init__(
        self, options: Options, lying: Sequence[str] = (), broken: Sequence[str] = ()
    ) -> None:
        super().__init__(options)
        self.lying, self.broken = lying, broken
        self.changing: Sequence[str] = ()
        self.log: list[str] = []

    def missing(self) -> list[Any]:
        return []

    def check(self, profile: Profile, options: Options | None = None) -> list[Any]:
        return []

    def install(self, label: str, profile: Profile) -> Deployment:
        self.log.append(f"install {label}")
        if label in self.broken:
            raise ClusterError("no such device", "modprobe it")
        return self.deploys(self, label, profile)

    def environment(self) -> dict[str, Any]:
        return {"kernel": os.uname().release}

    def __exit__(self, *error: object) -> None:
        self.log.append("left")


class OneByOne(Local):
    simultaneous = False


class Slow(OneByOne):
    """Its deployments cannot be compared in each block."""

    deploys = AttestedInFull
    slices = "together"


class Standing(Slow):
    """Its deployments are there before the run, and stay."""

    def install(self, label: str, profile: Profile) -> Deployment:
        there = self.__dict__.setdefault("standing", {})
        return there.setdefault(label, super().install(label, profile))


class Echo(Workload):
    """Real request/response traffic over the loopback."""

    name = "echo"
    title = "echo"
    tools = {}
    primary = "transaction_rate"

    class Params(Strict):
        fault: str = ""

    @contextmanager
    def serve(self, s: SampleContext) -> Iterator[None]:
        out = s.raw / "server"
        with s.server.spawn([sys.executable, "-I", "-S", "-c", SERVER], stdout=out) as process:
            limit = time.monotonic() + 20
            while not out.read_text().endswith("\n"):
                if time.monotonic() > limit:
                    raise MeasureError("the server does not listen")
                time.sleep(0.01)
            self.server = process
            yield

    def warm_up(self, s: SampleContext) -> None:
        s.client.run(self._client(s, s.warmup), timeout=30)

    def start(self, s: SampleContext) -> Process:
        if s.cell.params["fault"] == "defect":
            raise KeyError("a parser's slip")
        if s.cell.params["fault"] == "server gone":
            self.server.kill()
        argv = s.on_client(self._client(s, s.duration))
        return s.client.spawn(argv, stdout=s.raw / "stdout", stderr=s.raw / "stderr")

    def _client(self, s: SampleContext, seconds: float) -> list[str]:
        port = (s.raw / "server").read_text().strip()
        return ["bash", "-c", CLIENT, "client", port, str(round(seconds * 1e6))]

    def measurements(self, s: SampleContext) -> Measurements:
        if s.cell.params["fault"] == "dies":
            s.deployment.dead = "the daemon died"  # type: ignore[attr-defined]
        text = (s.raw / "stdout").read_text()
        if not text:
            raise MeasureError(
                "the client said: " + (s.raw / "stderr").read_text().strip().splitlines()[-1]
            )
        found = Measurements()
        found.add("transaction_rate", json.loads(text)["rate"])
        return found


class Spy(Collector):
    """Reads the loopback's packet counter at both ends of the window, which opens only when a
    packet was seen if it is ``patient``.
    """

    patient = False

    name = "spy"
    title = "spy"

    @contextmanager
    def observe(self, s: SampleContext, into: Measurements) -> Iterator[None]:
        before = self._packets()
        # A busy machine may start the client after the window opens.
        limit = time.monotonic() + 20
        while self.patient and self._packets() == before and time.monotonic() < limit:
            time.sleep(0.01)
        yield
        into.add("packets", self._packets() - before, interface="lo")
        into.records.append(("series", {"before": before}))

    def _packets(self) -> int:
        return int(Path("/sys/class/net/lo/statistics/tx_packets").read_text())


class Patient(Spy):
    patient = True


def profile(name: str = "veth") -> Profile:
    policy = {"kubernetes": False, "ingress": False, "egress": False}
    features = {"network_model": "L3", "mode": "none", "policy": policy, "default_mtu": 1500}
    return Profile.model_validate(
        {"schema": 1, "name": name, "title": name, "cni": name, "summary": "", "features": features}
    )


def cell(label: str, fault: str = "") -> Cell:
    return Cell(
        label=label, profile="veth", placement="intra", workload="echo", params={"fault": fault}
    )


def manifest(cells: list[Cell], blocks: int, **more: Any) -> Manifest:
    profiles = {one.label: profile().model_dump(mode="json", by_alias=True) for one in cells}
    return a_manifest(
        cells,
        **{
            "seed": 3,
            "blocks": blocks,
            "duration": 0.2,
            "cluster": "local",
            "profiles": profiles,
            **more,
        },
    )


def runner(writer: RunWriter, cluster: Cluster, **more: Any) -> Runner:
    profiles = {label: profile() for label in writer.manifest.profiles}
    return Runner(
        cluster=cluster,
        writer=writer,
        profiles=profiles,
        workloads={"echo": Echo()},
        collectors=[Spy()],
        **more,
    )


def measured(folder: Path) -> list[tuple[str, int]]:
    return [
        (item.cell, item.block)
        for item in RunReader(folder).samples()
        if item.metric not in ("packets", "cpu_per_transaction")
    ]
