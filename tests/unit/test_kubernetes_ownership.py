"""Who owns what on a cluster, against a small API server that keeps objects as Kubernetes does;
what kubectl's failures mean.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cnibench.clusters.kubernetes.api.availability import Availability
from cnibench.clusters.kubernetes.api.client import Answer
from cnibench.clusters.kubernetes.ownership import (
    discovery,
    kind_clusters,
    lease,
    namespace,
    safety,
    state,
)
from cnibench.clusters.kubernetes.ownership.lease import Lease
from cnibench.clusters.kubernetes.ownership.namespace import Claim
from cnibench.clusters.kubernetes.ownership.safety import Allowed, RefusedError
from cnibench.errors import ClusterError, EndedError
from cnibench.system import scratch

OWNER = "calm-otter-0123ab"
SPACE = "/api/v1/namespaces/space"


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "FRESH", 0.0)


class Store:
    """Objects by path with the API's rules of concurrency: PUT wants the version that was read."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.silent = False
        self.availability = Availability(lambda: "refused" if self.silent else "", "the API server")
        self.api = self
        self.dropped: list[str] = []
        self._versions = itertools.count(1)

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, timeout: float = 0.0
    ) -> Answer:
        if self.silent:
            return Answer(0, reason="Unreachable", message="refused")
        if method == "POST":
            assert body is not None
            path = f"{path}/{body['metadata']['name']}"
        elif path not in self.objects:
            return Answer(404, reason="NotFound")
        elif method == "PUT":
            assert body is not None
            if (
                body["metadata"]["resourceVersion"]
                != self.objects[path]["metadata"]["resourceVersion"]
            ):
                return Answer(409, reason="Conflict")
        if body is not None:
            uid = self.objects.get(path, {}).get("metadata", {}).get("uid", "made")
            meta = {**body["metadata"], "uid": uid, "resourceVersion": str(next(self._versions))}
            self.objects[path] = {**body, "metadata": meta}
        return Answer(200, self.objects[path])

    def refusal(self, answer: Answer, what: str) -> ClusterError:
        return ClusterError(f"{what}: {answer.reason}")


@pytest.fixture
def store() -> Store:
    made = Store()
    made.objects[SPACE] = {"metadata": {"name": "space", "uid": "u1"}}
    return made


def held(store: Store) -> Lease:
    return Lease(store, "space", "u1", OWNER, "run-1")  # type: ignore[arg-type]


def test_a_lease_that_another_takes_is_lost_and_not_written_again(store: Store) -> None:
    mine = held(store)
    known = dict(store.objects[lease.path("space")])
    assert mine.check(now=True) == ""
    assert not lease.take(store, known, "other"), "it was renewed since it was read"  # type: ignore[arg-type]
    assert lease.take(store, store.objects[lease.path("space")], "wise-yew-999999_clean-1")  # type: ignore[arg-type]
    assert "its holder is wise-yew-999999_clean-1" in mine.check(now=True)
    mine.release()
    assert store.objects[lease.path("space")]["spec"]["holderIdentity"] == "wise-yew-999999_clean-1"


def test_a_sample_that_another_took_the_cluster_from_is_not_stored(store: Store) -> None:
    """Right after a renewal, when nothing but asking would show it."""
    claim = Claim.__new__(Claim)
    claim.access = store  # type: ignore[assignment]
    claim.lease = held(store)
    assert lease.take(store, store.objects[lease.path("space")], "wise-yew-999999_clean-1")  # type: ignore[arg-type]
    with pytest.raises(EndedError, match="its holder is wise-yew-999999_clean-1"):
        claim.outages(False, lambda: "")
    claim.lease.stop()


def test_a_deleted_namespace_is_named(store: Store) -> None:
    mine = held(store)
    store.objects.clear()
    assert mine.check(now=True) == "somebody else has deleted the namespace space"
    mine.release()
    assert not store.objects


def test_a_renewal_that_arrived_without_its_answer_loses_nothing(store: Store) -> None:
    mine = held(store)
    path = lease.path("space")
    store.call("PUT", path, {**store.objects[path]})
    assert mine.check(now=True) == ""
    mine.release()
    assert store.objects[path]["spec"]["holderIdentity"] == ""


def test_an_outage_is_noted_and_the_lease_kept(store: Store) -> None:
    mine = held(store)
    store.silent = True
    assert mine.check(now=True) == ""
    assert store.availability.down()
    store.silent = False
    assert mine.check(now=True) == ""
    (outage,) = store.availability.take()
    assert outage.reason == "refused"
    assert not store.availability.take()
    mine.release()


@pytest.mark.parametrize("alive", [True, False])
def test_a_lease_is_watched_by_the_observers_own_clock(
    store: Store, alive: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its times are those of a machine whose clock is years behind."""
    monkeypatch.setattr(discovery, "_LOOK", 0.02)
    made = lease.body("space", "u1", OWNER, f"{OWNER}_run-1")
    made["spec"] |= {"renewTime": "2001-01-01T00:00:00.000000Z", "leaseDurationSeconds": 1}
    store.call("POST", lease.path("space", ""), made)
    space = discovery.Space(
        "space", "u1", "run-1", OWNER, "held", store.objects[lease.path("space")]
    )
    told: list[str] = []

    def notify(text: str) -> None:
        told.append(text)
        if alive:
            now = store.objects[lease.path("space")]
            store.call(
                "PUT",
                lease.path("space"),
                {**now, "spec": {**now["spec"], "renewTime": "2001-01-01T00:00:05.000000Z"}},
            )

    (found,) = discovery.watched(store, [space], notify)  # type: ignore[arg-type]
    assert found.use == ("live" if alive else "expired")
    assert "space" in told[0]


def test_a_run_of_this_machine_that_has_ended_is_known_at_once(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its Lease is not watched. Of a run on another machine, or before this one was started, it
    is.
    """
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    made = lease.body("space", "u1", OWNER, f"{OWNER}_run-1")
    store.call("POST", lease.path("space", ""), made)
    kept = store.objects[lease.path("space")]
    space = discovery.Space("space", "u1", "run-1", OWNER, "held", kept)
    mark = state.Mark("u1")
    assert not state.ended("u1"), "it lives"
    assert not state.ended("u2"), "nothing is known"
    mark._file.close()  # type: ignore[union-attr]  # as the kernel does with a process
    said: list[str] = []
    (found,) = discovery.watched(store, [space], said.append)  # type: ignore[arg-type]
    assert (found.use, said) == ("expired", [])
    with monkeypatch.context() as patch:
        patch.setattr(state, "_boot", lambda: "another")
        assert not state.ended("u1")
    mark.close()
    assert not state.ended("u1")
    assert not any((tmp_path / "cnibench" / "namespaces").iterdir())


def test_where_marks_cannot_be_kept_nothing_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "cnibench").mkdir()
    (tmp_path / "cnibench" / "namespaces").touch()  # no folder can be made there
    mark = state.Mark("u1")
    assert not state.ended("u1")
    mark.close()
    state.unmark("u1")
    state.unmark_ended()


def test_marks_of_killed_runs_go_and_those_of_live_ones_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    killed, lives = state.Mark("u1"), state.Mark("u2")
    killed._file.close()  # type: ignore[union-attr]  # as the kernel does with a process
    state.unmark_ended()
    assert [path.name for path in (tmp_path / "cnibench" / "namespaces").iterdir()] == ["u2"]
    lives.close()


def test_a_lease_that_was_copied_with_its_labels_proves_nothing(store: Store) -> None:
    store.call(
        "POST",
        lease.path("space", ""),
        lease.body("space", "the UID of another namespace", OWNER, f"{OWNER}_run-1"),
    )
    meta = {"name": "space", "uid": "u1", "labels": {"app.kubernetes.io/managed-by": "cnibench"}}
    assert discovery._space(store, {"metadata": meta}).use == "unproven"  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "use"), [("cnibench-0123abcd", "held"), ("copy", "unproven")])
def test_a_namespace_without_a_lease_is_ours_by_the_name_that_its_run_gave_it(
    store: Store, name: str, use: str
) -> None:
    """A run that was killed between the two left it; a copy has the same labels."""
    meta = {
        "name": name,
        "uid": "u1",
        "labels": {"cnibench.io/run": "cnibench-0123abcd"},
        "annotations": {lease.OWNER: OWNER},
    }
    assert discovery._space(store, {"metadata": meta}).use == use  # type: ignore[arg-type]


def test_waiting_for_the_api_server_has_a_limit() -> None:
    told: list[str] = []
    known = Availability(lambda: "connection refused", "the API server of 'x'")
    known.patience, known.notify = 0.05, told.append
    for _ in range(2):
        with pytest.raises(
            EndedError,
            match=r"the API server of 'x' has not answered for [\d.]+ s: connection refused",
        ):
            known.wait()
    assert len(told) == 1


def test_waiting_ends_with_the_outage() -> None:
    answers = iter(["refused", "refused", ""])
    known = Availability(lambda: next(answers), "the API server")
    known.patience = 60.0
    known.wait()
    (outage,) = known.take()
    assert outage.seconds > 0


def test_an_owner_is_made_once_and_is_in_the_names_of_its_kind_clusters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owners = []
    for user in ("one", "other", "one"):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / user))
        owners.append(state.owner())
        assert state.owner_of(state.new_cluster()) == owners[-1]
    assert owners[0] == owners[2] != owners[1]
    assert len(f"{state.new_cluster()}-control-plane") <= 63, "a host name has no more"
    assert state.owner_of("cnibench-0123abcd") == state.owner_of("kind") == ""


def test_folders_of_kind_clusters_go_when_they_are_removed_and_not_when_they_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(kind_clusters, "_PAUSE", 0.02)
    kind = tmp_path / "kind"
    kind.write_text("#!/bin/sh\nexit 1\n")
    kind.chmod(0o755)
    gone, used = state.Kept(state.new_cluster()), state.Kept(state.new_cluster())
    gone.release(keep=True)
    with pytest.raises(ClusterError):
        kind_clusters.leftovers(set(), lambda text: None)
    assert gone.folder.is_dir(), "kind could not say which clusters there are"
    kind.write_text("#!/bin/sh\n")
    (left,) = kind_clusters.leftovers(set(), lambda text: None)
    assert gone.name in left.what
    assert gone.folder.is_dir()
    left.remove()
    assert not gone.folder.exists()
    assert used.folder.is_dir()
    used.release()


@pytest.mark.parametrize(
    ("allowed", "strangers", "said"),
    [
        (Allowed(), [], "removing it was not allowed"),
        (Allowed(install=True, replace="production"), [], "removing it was not allowed"),
        (Allowed(install=True), [("a", "shop/cart")], r"1 Pod of others \(shop/cart\)"),
        (Allowed(replace="lab"), [("a", "shop/cart")], r"1 Pod of others \(shop/cart\)"),
    ],
)
def test_removing_what_an_earlier_run_installed_is_refused_as_installing_is(
    allowed: Allowed, strangers: list[tuple[str, str]], said: str
) -> None:
    with pytest.raises(RefusedError, match=said):
        safety.check_change(allowed, "flannel", "lab", 2, strangers, ours=True)


@pytest.mark.parametrize(
    "allowed", [Allowed(install=True), Allowed(replace="lab"), Allowed(install=True, replace="lab")]
)
def test_removing_what_an_earlier_run_installed_is_allowed_as_installing_is(
    allowed: Allowed,
) -> None:
    safety.check_change(allowed, "flannel", "lab", 2, [], ours=True)


def test_a_folder_stays_while_its_process_lives_and_goes_after_it_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "cnibench-scratch-file").write_text("no folder of ours")
    program = (
        "from cnibench.system import scratch\nimport time\nwith scratch.folder() as f:\n print(f,"
        " flush=True)\n time.sleep(60)"
    )
    argv = [sys.executable, "-c", program]
    with subprocess.Popen(
        argv, stdout=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)}
    ) as process:
        assert process.stdout is not None
        path = Path(process.stdout.readline().strip())
        (path / "data").write_text("x")
        assert scratch.remove_stale() == []
        process.send_signal(signal.SIGKILL)
    assert scratch.remove_stale(dry_run=True) == [str(path)]
    assert path.exists()
    assert scratch.remove_stale() == [str(path)]
    assert [one.name for one in tmp_path.iterdir()] == ["cnibench-scratch-file"]


def test_a_nameless_file_is_written_and_read_by_its_path_and_goes() -> None:
    with scratch.nameless() as path:
        with path.open("wb") as file:
            file.write(b"said")
        assert path.read_text() == "said"
    assert not path.exists()


def test_a_frozen_holder_notices_that_its_lease_is_old(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = held(store)
    lease.take(store, store.objects[lease.path("space")], "other")  # type: ignore[arg-type]
    assert mine.check() == "", "the last renewal is fresh"
    real = time.clock_gettime
    monkeypatch.setattr(time, "clock_gettime", lambda which: real(which) + lease.DURATION + 1)
    assert "its holder is other" in mine.check()


def test_a_namespace_that_goes_is_asked_for_seldom_and_seen_to_be_gone_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The API server lets five seconds pass before it deletes what is in one."""
    now, looks = 0.0, 0

    class Going:
        def call(self, method: str, *_: Any) -> Answer:
            nonlocal looks
            looks += method == "GET"
            there = {"metadata": {"uid": "u1"}}
            return Answer(200, there) if now < 5.3 else Answer(404, reason="NotFound")

        def delete(self, *_: Any, **more: Any) -> None:
            """Its Pods."""

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    monkeypatch.setattr(namespace.time, "monotonic", lambda: now)
    monkeypatch.setattr(namespace.time, "sleep", sleep)
    namespace.remove(Going(), "space", "u1")  # type: ignore[arg-type]
    assert now < 5.6
    assert looks <= 6
