"""Real CNIs measured in slices: their clusters exist at once, and their slices alternate."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from _kind_runs import CNIBENCH, clusters, cnibench, engine, lines, output, run_of, until
from _traces import KINDS, Traces

from cnibench.clusters.kubernetes import images
from cnibench.run.slices.readings.clocks import descendants

pytestmark = pytest.mark.timeout(900)

CNIS = ("bridge-static", "flannel-host-gw")
REGISTRY = "localhost/of-a-registry"
_LOADED = "kind load image-archive"


@pytest.fixture
def registry(home: Path) -> Iterator[str]:
    """Where our images have names that no node has, and no registry."""
    kinds = {images.name(kind): images.name(kind, REGISTRY) for kind in images.KINDS}
    for name, other in kinds.items():
        engine("podman", "tag", name, other)
    yield REGISTRY
    for other in kinds.values():
        engine("podman", "rmi", other)  # the last name of an image alone removes it


def logged(folder: Path) -> str:
    return (run_of(folder) / "run.log").read_text()


@pytest.fixture(scope="module")
def dual_stack() -> Iterator[None]:
    """Clusters made meanwhile have nodes with addresses of both families."""
    name = f"cnibench-e2e-{os.getpid()}"
    engine("podman", "network", "create", "--ipv6", name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KIND_EXPERIMENTAL_PODMAN_NETWORK", name)
        yield
    engine("podman", "network", "rm", name)


@pytest.fixture(scope="module")
def sliced(
    home: Path, dual_stack: None, flannel: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The folder of a run with the default method, on dual-stack clusters."""
    folder = tmp_path_factory.mktemp("sliced")
    words = [word.replace("chart=", "flannel-host-gw:chart=") for word in flannel]
    cells = ("--placement", "inter", "--ip", "both", "--congestion-control", "reno")
    run = ("run", "--cluster", "kind", "--cni", ",".join(CNIS), "--blocks", "1")
    cnibench(*run, *cells, *words, cwd=folder)
    return folder


def test_images_that_the_nodes_have_are_not_loaded(sliced: Path) -> None:
    assert _LOADED not in logged(sliced)


def test_the_slices_of_two_clusters_alternate(sliced: Path) -> None:
    samples = lines(sliced, "samples")
    keys = ("label", "ip", "workload", "window", "status")
    assert {tuple(one[key] for key in keys) for one in samples} == {
        (label, ip, workload, window, "ok")
        for label in CNIS
        for ip in (4, 6)
        for workload in ("tcp-rr", "tcp-stream")
        for window in ("speed", "cpp")
    }
    assert {(one["method"], one["fidelity"], one["testbed"]) for one in samples} == {
        ("slices", "cni", "kind")
    }
    files = sorted(run_of(sliced).glob("raw/*.speed.*/0/slices.jsonl"))
    assert len(files) == 8
    slices = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    begun = sorted((one["start"], one["cell"].split(".")[0]) for one in slices)
    for first in range(0, len(begun), 8):
        assert {label for _, label in begun[first : first + 8]} == set(CNIS), "one round"


def test_both_families_are_attested(sliced: Path) -> None:
    attested = lines(sliced, "attestations")
    assert all(one["passed"] for one in attested)
    found = {(one["label"], one["ip"]) for one in attested if one["check"] == "encapsulation"}
    assert found == {(label, ip) for label in CNIS for ip in (4, 6)}


def test_what_is_asked_for_holds_in_the_pods(sliced: Path) -> None:
    assert {one["congestion_control"] for one in lines(sliced, "samples")} == {"reno"}
    (priority,) = {one["priority"] for one in lines(sliced, "slices")}
    report = (run_of(sliced) / "report.md").read_text()
    assert priority == "real-time" or f"{priority} to what is measured in slices" in report


def test_slices_agree_with_a_window_of_the_same_program(sliced: Path) -> None:
    """Within a factor of two, for a busy machine delays a window. Another path or another program
    is several times as fast.
    """
    checked = lines(sliced, "crosscheck")
    assert len(checked) == 8
    for one in checked:
        assert one["metric"] in one["found"], one["reason"]
        assert 0.5 < one["found"][one["metric"]] / one["value"] < 2


def test_what_other_programs_used_is_said_of_each_sample(sliced: Path) -> None:
    """At least the kubelets are among them."""
    stalls = lines(sliced, "stalls")
    assert len(stalls) == 16
    for one in stalls:
        (load,) = one["node_load"]
        assert (load["node"], load["estimate"]) == ("a+b", True)
    assert max(one["others"] for one in stalls) > 0


def test_cycles_are_those_of_the_datapath(sliced: Path) -> None:
    found = {one["label"]: one["components"] for one in lines(sliced, "cpp")}
    assert set(found) == set(CNIS)
    assert all(components.get("bridge", 0) > 0 for components in found.values())


def test_nothing_of_a_killed_run_lives_on(
    registry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs in the Pods end with cnibench, or with the cluster that ``clean`` removes, which
    leaves nothing. The nodes lack its images, which are loaded.
    """
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))  # other tests keep their clusters
    argv = [CNIBENCH, "run", "--cluster", "kind", "--cni", "bridge-static", "--registry", registry]
    with subprocess.Popen(
        [*argv, "--workload", "http:payload=1K", "--duration", "60s", "--blocks", "1", "--no-perf"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as run:
        try:  # one client on one node, and one between nodes
            until(lambda: run.poll() is not None or len(_programs(run.pid, "ab")) == 2, 300)
            assert run.poll() is None
            pids = {*_programs(run.pid, "ab"), *_programs(run.pid, "nginx")}
            assert len(pids) > 2, "the clients, and nginx"
            assert _LOADED in logged(tmp_path)
        finally:
            run.kill()
    until(lambda: not any(_name(pid) == "ab" for pid in pids), 20)
    (cluster,) = (tmp_path / "state" / "cnibench" / "clusters").iterdir()
    assert cluster.name in clusters()
    label = f"label=io.x-k8s.kind.cluster={cluster.name}"
    traces = Traces(*engine("podman", "ps", "--format", "{{.Names}}", "--filter", label).split())
    assert set(traces.left()) == KINDS, "it knows where to look"
    assert f"the kind cluster {cluster.name}" in output(CNIBENCH, "clean", "--cluster", "kind")
    assert cluster.name not in clusters()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), 20)
    assert traces.stay() == {}


def _programs(root: int, name: str) -> set[int]:
    return {pid for pid in descendants(root) if _name(pid) == name}


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
