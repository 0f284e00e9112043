"""The runner on a real, tiny cluster: this machine's loopback, with real programs as client and
server.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from cnibench.errors import ClusterError, EndedError, Interrupted, MeasureError, UsageError
from cnibench.model.cell import Attestation, Cell
from cnibench.model.profile import Profile, Strict
from cnibench.planning.schedule import order
from cnibench.run.collector import Collector
from cnibench.run.cpus import choose_cpus
from cnibench.run.progress import Silent
from cnibench.run.runner import Runner
from cnibench.run.sample_context import Measurements, SampleContext
from cnibench.run.workload import Workload
from cnibench.rundir.files import FullError
from cnibench.rundir.reader import RunReader
from cnibench.rundir.schema import Manifest, now
from cnibench.rundir.writer import RunWriter
from cnibench.system.process import Done, Process, run, spawn
from cnibench.testbed.capabilities.outages import Outage, Outages
from cnibench.testbed.capabilities.quick_attestation import QuickAttestation
from cnibench.testbed.cluster import Cluster, Options
from cnibench.testbed.deployment import Deployment
from cnibench.testbed.place import Node, Pod

PYTHON = [sys.executable, "-I", "-S", "-c"]  # starts four times as fast without site-packages
CLIENT = """
import json, socket, sys, time
peer = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5)
end, count = time.monotonic() + float(sys.argv[2]), 0
while time.monotonic() < end:
    peer.sendall(b"x")
    if not peer.recv(1):
        sys.exit("the server has gone")
    count += 1
print(json.dumps({"rate": count / float(sys.argv[2])}))
"""
SERVER = """
import socket, sys
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    peer, _ = listener.accept()
    while data := peer.recv(1):
        peer.sendall(data)
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


class LocalStanding(Deployment, QuickAttestation):
    fidelity = "baseline"

    def __init__(self, cluster: Local, label: str, profile: Profile) -> None:
        self.cluster, self.label, self.profile = cluster, label, profile
        self.dead = ""
        self.verified = 0

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
        passed = self.label not in self.cluster.lying
        seen = "127.0.0.1" if passed else "nothing"
        return [
            Attestation(
                label=self.label,
                profile=self.profile.name,
                check="address",
                expected="127.0.0.1",
                observed=seen,
                passed=passed,
            )
        ]

    def verify(self) -> list[Attestation]:
        """``changing`` ones are other than declared from the second comparison on."""
        self.verified += 1
        passed = self.label not in self.cluster.changing or self.verified < 2
        return [
            Attestation(
                label=self.label,
                profile=self.profile.name,
                check="kernel-state-a",
                expected="as declared",
                observed="as declared" if passed else "other rules",
                passed=passed,
            )
        ]

    def remove(self) -> None:
        self.cluster.log.append(f"remove {self.label}")

    def alive(self) -> str:
        return self.dead


class Local(Cluster):
    """``lying`` labels fail their attestation, ``broken`` ones their installation."""

    kind = "local"
    simultaneous = True
    testbed = "lab"
    wire = "none"

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
        return LocalStanding(self, label, profile)

    def environment(self) -> dict[str, Any]:
        return {"kernel": os.uname().release}

    def __exit__(self, *error: object) -> None:
        self.log.append("left")


class OneByOne(Local):
    simultaneous = False


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
        with s.server.spawn([*PYTHON, SERVER], stdout=out) as process:
            limit = time.monotonic() + 20
            while not out.read_text().endswith("\n"):
                if time.monotonic() > limit:
                    raise MeasureError("the server does not listen")
                time.sleep(0.01)
            self.server = process
            yield

    def warm_up(self, s: SampleContext) -> None:
        s.client.run(
            [*PYTHON, CLIENT, (s.raw / "server").read_text().strip(), str(s.warmup)], timeout=30
        )

    def start(self, s: SampleContext) -> Process:
        if s.cell.params["fault"] == "defect":
            raise KeyError("a parser's slip")
        if s.cell.params["fault"] == "server gone":
            self.server.kill()
        port = (s.raw / "server").read_text().strip()
        argv = [*PYTHON, CLIENT, port, str(s.duration)]
        return s.client.spawn(s.on_client(argv), stdout=s.raw / "stdout", stderr=s.raw / "stderr")

    def findings(self, s: SampleContext) -> Measurements:
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
        limit = time.monotonic() + 20
        while self.patient and self._packets() == before and time.monotonic() < limit:
            time.sleep(
                0.01
                # the client is an interpreter, which takes longer to start than the window on a
                # machine
                # that others load
            )
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
    return Manifest(
        id="r",
        name="",
        created=now(),
        command=["cnibench", "run"],
        tool_version="0",
        seed=3,
        blocks=blocks,
        duration=0.2,
        warmup=0.0,
        cluster="local",
        cells=cells,
        profiles=profiles,
        **more,
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
        (item.cell, item.block) for item in RunReader(folder).samples() if item.metric != "packets"
    ]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "run"


def test_a_profile_that_cannot_be_removed_fails_a_complete_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(deployment: LocalStanding) -> None:
        if deployment.label == "a":
            raise ClusterError("still there: Namespace x", "kubectl get namespace x")

    monkeypatch.setattr(LocalStanding, "remove", fails)
    with (
        RunWriter.create(folder, manifest([cell("a"), cell("b")], 1)) as writer,
        pytest.raises(ClusterError, match=r"a \(still there: Namespace x\)") as raised,
    ):
        runner(writer, Local(Options())).run()
    assert raised.value.exit_code == 1
    assert raised.value.remedy == "kubectl get namespace x"
    assert RunReader(folder).finished
    assert len(measured(folder)) == 2


def test_blocks_interleave_the_profiles_and_everything_is_stored(folder: Path) -> None:
    cells = [cell("a"), cell("b")]
    with RunWriter.create(folder, manifest(cells, 2)) as writer:
        cluster = Local(Options())
        subject = runner(writer, cluster)
        subject.collectors = [Patient()]
        assert subject.run() == 0
    assert sorted(cluster.log[:2]) == ["install a", "install b"]
    assert cluster.log[-1] == "left"
    assert sorted(cluster.log[2:4]) == ["remove a", "remove b"]
    reader = RunReader(folder)
    expected = [(one.id, block) for block in range(2) for one in order(cells, block, 3)]
    assert measured(folder) == expected
    rates = [item for item in reader.samples() if item.metric == "transaction_rate"]
    assert all(
        item.value and item.value > 0 and item.unit == "1/s" and item.better == "higher"
        for item in rates
    )
    packets = [item for item in reader.samples() if item.metric == "packets"]
    assert all(
        item.params == {"fault": "", "interface": "lo"} and item.value and item.value > 0
        for item in packets
    )
    assert len(list(reader.records("series"))) == 4
    assert all(item.start < item.end and item.start.endswith("Z") for item in reader.samples())
    told = json.loads((reader.raw(cells[0], 1) / "cmd.json").read_text())
    assert told["argv"][0] == sys.executable
    assert reader.environment["testbed"] == "lab"
    assert [event["event"] for event in reader.events()][-1] == "run-finished"
    assert reader.finished


def test_state_is_reset_before_each_cell(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    serve = Echo.serve

    def noted(self: Echo, s: SampleContext) -> Any:
        log.append(f"measure {s.cell.label}")
        return serve(self, s)

    monkeypatch.setattr(Echo, "serve", noted)
    monkeypatch.setattr(
        LocalStanding, "reset_state", lambda self: log.append(f"reset {self.label}")
    )
    with RunWriter.create(folder, manifest([cell("a"), cell("b")], 2)) as writer:
        assert runner(writer, Local(Options())).run() == 0
    assert len(log) == 8
    for reset, measured_ in zip(log[::2], log[1::2], strict=True):
        assert (reset.split()[0], measured_.split()[0]) == ("reset", "measure")
        assert reset.split()[1] == measured_.split()[1]


def test_the_window_keeps_a_margin_from_both_ends_of_the_client(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenth of the client's time passes before the window opens and after it has closed."""
    asked: list[float] = []
    watch = Process.watch

    def noted(self: Process, seconds: float) -> None:
        asked.append(seconds)
        watch(self, seconds)

    monkeypatch.setattr(Process, "watch", noted)
    with RunWriter.create(folder, manifest([cell("a")], 1)) as writer:
        assert runner(writer, Local(Options())).run() == 0
        duration = writer.manifest.duration
    before, window = asked
    assert before == pytest.approx(duration / 10)
    assert window <= 0.8 * duration  # less on a machine on which the collectors began late


def test_one_profile_at_a_time_where_only_one_can_stand(folder: Path) -> None:
    with RunWriter.create(folder, manifest([cell("a"), cell("b")], 2)) as writer:
        cluster = OneByOne(Options())
        assert runner(writer, cluster).run() == 0
    installs = [line for line in cluster.log if line.startswith("install")]
    assert len(installs) == 4
    for at, line in enumerate(cluster.log):
        if line.startswith("install"):
            assert cluster.log[at + 1] == line.replace("install", "remove")


def test_a_deployment_that_changes_loses_the_samples_since_it_was_last_compared(
    folder: Path,
) -> None:
    with RunWriter.create(folder, manifest([cell("a"), cell("b")], 3)) as writer:
        cluster = Local(Options())
        cluster.changing = ("a",)
        assert runner(writer, cluster).run() == 2
    status = {
        (item.label, item.block): (item.status, item.reason) for item in RunReader(folder).samples()
    }
    assert status["a", 0] == ("ok", "")
    for block in (1, 2):
        assert status["a", block][0] == "failed"
        assert "changed during the run" in status["a", block][1]
        assert "kernel-state-a: expected as declared, observed other rules" in status["a", block][1]
    assert all(status["b", block] == ("ok", "") for block in range(3))
    wrong = [item for item in RunReader(folder).attestations() if not item.passed]
    assert [item.label for item in wrong] == ["a"]


def test_traffic_that_changed_by_the_end_costs_all_samples(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RunWriter.create(folder, manifest([cell("a"), cell("b")], 2)) as writer:
        cluster = Local(Options())
        monkeypatch.setattr(
            LocalStanding, "alive", lambda self: cluster.__setattr__("lying", ("b",)) or ""
        )
        assert runner(writer, cluster).run() == 2
    status = {(item.label, item.block): item.status for item in RunReader(folder).samples()}
    assert status == {("a", 0): "ok", ("a", 1): "ok", ("b", 0): "failed", ("b", 1): "failed"}


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("server gone", "the client said"),
        ("defect", "a defect of cnibench: KeyError"),
        ("dies", "the daemon died"),
    ],
)
def test_a_failed_cell_is_recorded_and_the_run_goes_on(folder: Path, fault: str, said: str) -> None:
    cells = [cell("bad", fault), cell("good")]
    with RunWriter.create(folder, manifest(cells, 2)) as writer:
        assert runner(writer, Local(Options())).run() == 2
    status = {
        (item.label, item.block): (item.status, item.reason) for item in RunReader(folder).samples()
    }
    for block in range(2):
        assert status["good", block] == ("ok", "")
        assert status["bad", block][0] == "failed"
        assert said in status["bad", block][1]
    assert RunReader(folder).finished


def test_a_client_that_never_ends_is_a_timeout(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stuck(Echo):
        def start(self, s: SampleContext) -> Process:
            return s.client.spawn(["sleep", "1000"], stdout=s.raw / "stdout")

    monkeypatch.setattr("cnibench.run.sample._GRACE", 0.2)
    one = cell("a")
    with RunWriter.create(folder, manifest([one], 1)) as writer:
        subject = runner(writer, Local(Options()))
        subject.workloads = {"echo": Stuck()}
        assert subject.run() == 1
    (sample,) = RunReader(folder).samples()
    assert (sample.status, sample.value, sample.metric) == ("timeout", None, "")
    assert "did not end" in sample.reason


@pytest.mark.parametrize(
    ("which", "said"), [("lying", "attestation failed: address"), ("broken", "no such device")]
)
@pytest.mark.parametrize("kind", [Local, OneByOne])
def test_a_profile_that_is_not_what_it_claims_is_not_measured(
    folder: Path, kind: type[Local], which: str, said: str
) -> None:
    with RunWriter.create(folder, manifest([cell("bad"), cell("good")], 1)) as writer:
        cluster = kind(Options(), **{which: ("bad",)})
        assert runner(writer, cluster).run() == 1
    reader = RunReader(folder)
    bad = [item for item in reader.samples() if item.label == "bad"]
    assert [item.status for item in bad] == ["failed"]
    assert said in bad[0].reason
    assert [item.status for item in reader.samples() if item.label == "good"].count("ok") == 2
    assert any(
        event["event"] == "profile-failed" and event["label"] == "bad" for event in reader.events()
    )
    assert not reader.raw(bad[0].cell, 0).exists()


def test_why_a_profile_was_not_installed_is_told_with_the_remedy(folder: Path) -> None:
    class Told(Silent):
        said: ClassVar[list[str]] = []

        def notify(self, text: str) -> None:
            self.said.append(text)

    with RunWriter.create(folder, manifest([cell("bad"), cell("good")], 1)) as writer:
        assert runner(writer, Local(Options(), broken=("bad",)), progress=Told()).run() == 1
    assert "bad is not measured, installing: no such device; remedy: modprobe it" in Told.said


def test_what_was_measured_during_an_outage_is_measured_again(folder: Path) -> None:
    class Unsteady(Local, Outages):
        asked = 0

        def outages(self, suspect: bool = False) -> list[Outage]:
            self.asked += 1
            return (
                [Outage(now(), 7.5, "connection refused")] if self.asked == 3 else []
            )  # after the first sample

    cells = [cell("veth")]
    with RunWriter.create(folder, manifest(cells, 2)) as writer:
        assert runner(writer, Unsteady(Options())).run() == 0
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    assert [(one["seconds"], one["reason"]) for one in events if one["event"] == "outage"] == [
        (7.5, "connection refused")
    ]
    assert [one["status"] for one in events if one["event"] == "cell-finished"] == ["ok", "ok"]
    assert (folder / "raw" / cells[0].id / "0.interrupted-1").is_dir(), (
        "the first attempt is kept beside the second"
    )


def test_a_cluster_that_is_lost_ends_the_run_which_can_be_resumed(folder: Path) -> None:
    class Lost(Local, Outages):
        asked = 0

        def outages(self, suspect: bool = False) -> list[Outage]:
            self.asked += 1
            if self.asked > 3:  # before the second sample
                raise EndedError("the API server has not answered for 2 min", "see that it is up")
            return []

    cells = [cell("veth")]
    told = pytest.raises(EndedError, match="every finished sample is kept")
    with RunWriter.create(folder, manifest(cells, 3)) as writer, told as error:
        runner(writer, Lost(Options())).run()
    assert "cnibench run --resume" in error.value.remedy
    assert measured(folder) == [(cells[0].id, 0)]
    assert not RunReader(folder).finished


def test_an_interrupted_run_is_cleaned_up_and_resumes_in_the_original_order(folder: Path) -> None:
    cells = [cell("a"), cell("b"), cell("c")]
    expected = [(one.id, block) for block in range(3) for one in order(cells, block, 3)]
    cluster = Local(Options())

    class CtrlC(Spy):
        """Presses Ctrl-C in the window of the fifth sample."""

        def observe(self, s: SampleContext, into: Measurements) -> Any:
            if (s.cell.id, s.block) == expected[4]:
                os.kill(os.getpid(), signal.SIGINT)
            return super().observe(s, into)

    before = signal.getsignal(signal.SIGINT)
    with RunWriter.create(folder, manifest(cells, 3)) as writer:
        subject = runner(writer, cluster)
        subject.collectors = [CtrlC()]
        with pytest.raises(Interrupted) as caught:
            subject.run()
    assert signal.getsignal(signal.SIGINT) is before
    assert f"--resume {folder}" in caught.value.remedy
    assert cluster.log[-1] == "left"
    assert {"remove a", "remove b", "remove c"} <= set(cluster.log)
    assert measured(folder) == expected[:4]
    assert RunReader(folder).finished == ""
    assert [event["event"] for event in RunReader(folder).events()][-1] == "run-interrupted"
    with RunWriter.resume(folder) as writer:
        assert runner(writer, Local(Options()), done=RunReader(folder).done()).run() == 0
    assert measured(folder) == expected
    assert RunReader(folder).finished


def test_the_run_ends_where_its_target_is_reached(folder: Path) -> None:
    asked: list[int] = []

    def enough(blocks: int) -> str:
        asked.append(blocks)
        return "narrow enough" if blocks == 2 else ""

    with RunWriter.create(folder, manifest([cell("a")], 1, target_ci=0.5, max_blocks=9)) as writer:
        assert runner(writer, Local(Options()), enough=enough).run() == 0
    assert asked == [1, 2]
    assert [block for _, block in measured(folder)] == [0, 1]
    stopped = [event for event in RunReader(folder).events() if event["event"] == "stopped"]
    assert stopped[0]["reason"] == "narrow enough"


def test_nothing_to_write_on_ends_the_run(folder: Path) -> None:
    with RunWriter.create(folder, manifest([cell("a")], 1)) as writer:
        cluster = Local(Options())
        full = os.open("/dev/full", os.O_WRONLY)
        writer.files._open["samples.jsonl"] = full
        with pytest.raises(FullError, match="disk is full"):
            runner(writer, cluster).run()
    assert cluster.log[-1] == "left"
    assert not list(RunReader(folder).samples())
    assert [event["event"] for event in RunReader(folder).events()][-1] == "run-failed"


@pytest.mark.parametrize(
    ("cpus", "allowed", "siblings", "chosen"),
    [
        ("none", [0, 1], {}, (None, None)),
        ("shared", [0, 1], {}, (1, 1)),
        ("split", [0, 1], {}, (0, 1)),
        ("split", [2, 3, 6, 7], {2: 2, 6: 2, 3: 3, 7: 3}, (6, 7)),
        ("split", [0, 1, 2, 3], {0: 0, 1: 0, 2: 2, 3: 2}, (1, 3)),
        ("shared", [4], {4: 4}, (4, 4)),
    ],
)
def test_cpus_are_chosen_from_the_high_end_and_on_two_cores(
    cpus: str, allowed: list[int], siblings: dict[int, int], chosen: Any
) -> None:
    assert choose_cpus(cpus, allowed, siblings) == chosen


class OtherMachines(Local):
    """Its nodes are none of ours, and tell their kernel themselves."""

    manages_nodes = False

    def environment(self) -> dict[str, Any]:
        return {
            "nodes": {"a": {"kernelVersion": "6.1"}, "b": {"kernelVersion": "6.2"}},
            "wire_offload": "as it is",
        }


def test_a_run_is_not_resumed_on_other_nodes(folder: Path) -> None:
    cluster = OtherMachines(Options())
    recorded = {
        "nodes": {"a": {"kernelVersion": "5.15"}, "b": {"kernelVersion": "5.15"}},
        "kernel": "whatever starts the run",
    }
    with RunWriter.create(folder, manifest([cell("a")], 1)) as writer:
        writer.environment(recorded)
        before = (folder / "env.json").read_bytes()
        with pytest.raises(
            UsageError, match=r'kernels of the nodes: \["5.15"\] against \["6.1","6.2"\]'
        ):
            runner(writer, cluster, recorded=recorded, environment={"kernel": "this one"}).run()
    assert (folder / "env.json").read_bytes() == before
    assert measured(folder) == []
    assert cluster.log == ["left"], "nothing was installed"


def test_the_lines_of_a_run_say_its_options(folder: Path) -> None:
    with RunWriter.create(folder, manifest([cell("a")], 1)) as writer:
        runner(writer, Local(Options(wire_rate=2e8, wire_offload="plain"))).run()
    line = next(iter(RunReader(folder).samples()))
    assert (line.wire_rate, line.pairs, line.duration, line.warmup_time, line.wire_offload) == (
        2e8,
        1,
        0.2,
        0.0,
        "plain",
    )
