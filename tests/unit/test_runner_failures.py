"""What fails while a run goes on: a cell, a client, a profile. The rest is measured."""

from __future__ import annotations

from errno import ENOENT
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import msgspec
import pytest

from cnibench.errors import ClusterError, MeasureError
from cnibench.model.cell import AFTER_BLOCK, Attestation
from cnibench.run.progress import Silent
from cnibench.run.sample_context import SampleContext
from cnibench.run.slices import method
from cnibench.run.slices.method import Slices
from cnibench.rundir.reader import RunReader
from cnibench.rundir.writer import RunWriter
from cnibench.system.process import Process
from cnibench.testbed.capabilities.outages import Outage, Outages
from cnibench.testbed.cluster import Options
from tests.unit._local_cluster import (
    AttestedInFull,
    Echo,
    Local,
    LocalDeployment,
    OneByOne,
    Slow,
    cell,
    manifest,
    measured,
    runner,
)

pytestmark = pytest.mark.usefixtures("unhurried")


def test_a_profile_that_cannot_be_removed_fails_a_complete_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(deployment: LocalDeployment) -> None:
        if deployment.label == "a":
            raise ClusterError("still there: Namespace x", "kubectl get namespace x")

    monkeypatch.setattr(LocalDeployment, "remove", fails)
    with (
        RunWriter.create(folder, manifest([cell("a"), cell("b")], 1)) as writer,
        pytest.raises(ClusterError, match=r"a \(still there: Namespace x\)") as raised,
    ):
        runner(writer, Local(Options())).run()
    assert raised.value.exit_code == 1
    assert raised.value.remedy == "kubectl get namespace x"
    assert RunReader(folder).finished
    assert len(measured(folder)) == 2


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
    assert [(item.label, item.block) for item in wrong] == [("a", 1)]
    passed = [item for item in RunReader(folder).attestations() if item.check == AFTER_BLOCK]
    assert sorted((item.label, item.block) for item in passed) == [
        ("a", 0),
        *(("b", block) for block in range(3)),
    ]
    assert {item.observed for item in passed} == {"1 comparison without a difference"}


def test_in_slices_a_deployment_that_changes_loses_the_samples_of_its_block(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next block has another deployment, which is measured."""
    verified = list[str]()

    def changed(deployment: LocalDeployment) -> list[Attestation]:
        verified.append(deployment.label)
        passed = deployment.label != "a" or verified.count("a") != 2
        return [deployment._check("kernel-state-a", "one", "one" if passed else "other rules")]

    monkeypatch.setattr(LocalDeployment, "verify", changed)
    monkeypatch.setattr(Slices, "measure", lambda slices, *what: slices.windows.measure(*what))
    cells = [msgspec.structs.replace(cell(label), method="slices") for label in ("a", "b")]
    with RunWriter.create(folder, manifest(cells, 3)) as writer:
        assert runner(writer, Local(Options())).run() == 1
    status = {
        (one.label, one.block): (one.status, one.reason) for one in RunReader(folder).samples()
    }
    assert status.pop(("a", 1)) == (
        "failed",
        "changed during the run, attestation failed: kernel-state-a: expected one, observed other"
        " rules",
    )
    assert set(status.values()) == {("ok", "")}
    assert sorted(verified) == ["a"] * 3 + ["b"] * 3


def test_in_slices_the_last_deployments_are_attested_in_full_before_they_are_removed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Slices, "measure", lambda slices, *what: slices.windows.measure(*what))
    cells = [msgspec.structs.replace(cell(label), method="slices") for label in ("a", "b")]
    cluster = Local(Options())
    cluster.changing = ("b",)
    with RunWriter.create(folder, manifest(cells, 3)) as writer:
        # the run ends one block before the last one that it could have
        ended = runner(writer, cluster, enough=lambda blocks: "decided" * (blocks == 2))
        assert ended.run() == 1
    status = {(one.label, one.block): one.status for one in RunReader(folder).samples()}
    assert status.pop(("b", 1)) == "failed"
    assert status == dict.fromkeys([("a", 0), ("a", 1), ("b", 0)], "ok")
    assert [one[:7] for one in cluster.log] == (["install"] * 2 + ["remove "] * 2) * 2 + ["left"]


@pytest.mark.parametrize("method", ["windows", "slices"])
def test_a_deployment_that_is_not_compared_is_attested_before_it_is_removed(
    folder: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """Slices install all profiles at once, windows one after the other."""
    monkeypatch.setattr(Slices, "measure", lambda slices, *what: slices.windows.measure(*what))
    cells = [msgspec.structs.replace(cell(label), method=method) for label in ("a", "b")]
    cluster = Slow(Options())
    cluster.changing = ("b",)
    with RunWriter.create(folder, manifest(cells, 2)) as writer:
        assert runner(writer, cluster).run() == 2
    status = {(one.label, one.block): one.status for one in RunReader(folder).samples()}
    assert status == {
        (label, block): said for label, said in (("a", "ok"), ("b", "failed")) for block in (0, 1)
    }
    at_once = method == "slices"
    assert (cluster.log[0][:7], cluster.log[1][:7]) == (
        "install",
        "install" if at_once else "remove ",
    )
    reasons = {one.reason for one in RunReader(folder).samples() if one.label == "b"}
    assert reasons == {
        "changed during the run, attestation failed: address: expected 127.0.0.1, observed nothing"
    }


class _Idle:
    """A load generator that starts and does nothing."""

    failure, priority, congestion_control, wanted = None, "", "", "normal"

    def __init__(self, s: SampleContext, *_: object) -> None:
        self.s = s

    def __enter__(self) -> _Idle:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing was started."""


@pytest.mark.parametrize(
    ("step", "reason"),
    [("load", "x: No such file or directory"), ("drive", "a bug in cnibench: KeyError: 'x'")],
)
def test_in_slices_a_fault_fails_its_samples_and_not_the_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, step: str, reason: str
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise FileNotFoundError(ENOENT, "No such file or directory", "x")

    def slips(*_: object, **__: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr(method, "Generator", _Idle)
    monkeypatch.setattr(method, "drive", slips)
    load = SimpleNamespace(ports=())
    monkeypatch.setattr(Echo, "load", fails if step == "load" else lambda *_: load, raising=False)
    cells = [msgspec.structs.replace(cell(label), method="slices") for label in ("a", "b")]
    with RunWriter.create(folder, manifest(cells, 1)) as writer:
        assert runner(writer, Local(Options())).run() == 2
    found = RunReader(folder)
    assert [one.status for one in found.samples()] == ["failed"] * 2
    assert {one.reason.partition("; remedy: ")[0] for one in found.samples()} == {reason}
    assert found.finished


def test_in_slices_a_load_is_told_how_long_all_of_its_turns_take(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All cells are in all rounds, whatever a cell's own duration is."""
    told = dict[str, float]()

    class Told(_Idle):
        def __init__(self, s: SampleContext, *_: object) -> None:
            super().__init__(s)
            told[s.cell.label] = s.turns

    def ends(*_: object, **__: object) -> None:
        raise MeasureError("it has ended", "wait")

    monkeypatch.setattr(method, "Generator", Told)
    monkeypatch.setattr(method, "drive", ends)
    monkeypatch.setattr(Echo, "load", lambda *_: SimpleNamespace(ports=()), raising=False)
    durations = {"a": 60.0, "b": 2.0}
    cells = [
        msgspec.structs.replace(cell(label), method="slices", duration=seconds)
        for label, seconds in durations.items()
    ]
    with RunWriter.create(folder, manifest(cells, 1)) as writer:
        assert runner(writer, Local(Options())).run() == 2
    assert told == pytest.approx({"a": 75.0, "b": 75.0}), "3000 slices of 20 ms, 5 ms before each"


class _Away(Local, Outages):
    """Unavailable while it is measured for the first time."""

    asked = 0

    def outages(self, suspect: bool = False) -> list[Outage]:
        self.asked += suspect
        return (
            [Outage("2026-01-01T00:00:00Z", 2.0, "no answer")]
            if suspect and self.asked == 1
            else []
        )


def test_in_slices_what_an_outage_has_spoilt_is_measured_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    driven = list[int]()

    def fails(*_: object, **__: object) -> None:
        driven.append(1)
        raise MeasureError(f"attempt {len(driven)}", "wait")

    monkeypatch.setattr(method, "Generator", _Idle)
    monkeypatch.setattr(method, "drive", fails)
    monkeypatch.setattr(Echo, "load", lambda *_: SimpleNamespace(ports=()), raising=False)
    cells = [msgspec.structs.replace(cell(label), method="slices") for label in ("a", "b")]
    with RunWriter.create(folder, manifest(cells, 1)) as writer:
        assert runner(writer, _Away(Options())).run() == 2
    found = RunReader(folder)
    assert [one.reason for one in found.samples()] == ["attempt 2; remedy: wait"] * 2
    assert [one["reason"] for one in found.events() if one["event"] == "outage"] == ["no answer"]


def test_an_outage_does_not_revoke_what_was_measured(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API server was away while the deployments were attested for the second time."""
    cluster = _Away(Options())
    cluster.deploys = AttestedInFull
    attest = AttestedInFull.attest

    def away(deployment: AttestedInFull) -> list[Attestation]:
        if deployment.attested == 1 and not cluster.asked:
            raise ClusterError("no answer")
        return attest(deployment)

    monkeypatch.setattr(AttestedInFull, "attest", away)
    with RunWriter.create(folder, manifest([cell("a"), cell("b")], 1)) as writer:
        assert runner(writer, cluster).run() == 0
    found = RunReader(folder)
    assert {one.status for one in found.samples()} == {"ok"}
    assert [one["reason"] for one in found.events() if one["event"] == "outage"] == ["no answer"]


def test_traffic_that_changed_by_the_end_costs_all_samples(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RunWriter.create(folder, manifest([cell("a"), cell("b")], 2)) as writer:
        cluster = Local(Options())
        monkeypatch.setattr(
            LocalDeployment, "alive", lambda self: cluster.__setattr__("lying", ("b",)) or ""
        )
        assert runner(writer, cluster).run() == 2
    status = {(item.label, item.block): item.status for item in RunReader(folder).samples()}
    assert status == {("a", 0): "ok", ("a", 1): "ok", ("b", 0): "failed", ("b", 1): "failed"}


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("server gone", "the client said"),
        ("defect", "a bug in cnibench: KeyError"),
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

    monkeypatch.setattr("cnibench.run.windows.sample._GRACE", 0.2)
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
    good = [item for item in reader.samples() if item.label == "good"]
    assert {item.status for item in good} == {"ok"}
    assert {"packets", "transaction_rate"} <= {item.metric for item in good}
    assert any(
        event["event"] == "profile-failed" and event["label"] == "bad" for event in reader.events()
    )
    assert not reader.raw(bad[0].cell, 0).exists()


def test_why_a_profile_was_not_installed_is_reported_with_the_remedy(folder: Path) -> None:
    class Told(Silent):
        said: ClassVar[list[str]] = []

        def notify(self, text: str) -> None:
            self.said.append(text)

    with RunWriter.create(folder, manifest([cell("bad"), cell("good")], 1)) as writer:
        assert runner(writer, Local(Options(), broken=("bad",)), progress=Told()).run() == 1
    assert "bad is not measured, installing: no such device; remedy: modprobe it" in Told.said
