"""A kept cluster of three nodes: pairs at the same time, nodes compared, NICs changed for a while,
its CNI replaced, one installed.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from _kind_runs import (
    CNIBENCH,
    IN_SLICES,
    ONE_CELL,
    SHORT,
    clusters,
    cnibench,
    kept_cluster,
    kubectl,
    lines,
    namespaces_of_runs,
    nothing_left,
    output,
    run_of,
    until,
)
from kind.parts import Parts

from cnibench.clusters.kubernetes.cni import sources
from cnibench.clusters.kubernetes.ownership import kind_clusters

pytestmark = pytest.mark.timeout(900)
GOLDEN = Path(__file__).parent.parent / "golden" / "kubernetes_errors"
TSO = "tx-tcp-segmentation"


@pytest.fixture(scope="module")
def charts(kind_parts: Parts) -> list[str]:
    """What flannel is installed with where nothing can be fetched."""
    return ["--set", f"chart={kind_parts.charts['flannel']}"]


@pytest.fixture(scope="module")
def kept(
    kind_parts: Parts, charts: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Any]]:
    """A run of two pairs with --keep, and the cluster that it left: the folder it ran in, its
    kubeconfig, its name.
    """
    folder, home = tmp_path_factory.mktemp("kept"), tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(home / "state"))
        patch.setenv("CNIBENCH_KIND_IMAGE", kind_parts.node_image)
        run = [
            "run",
            "--cluster",
            "kind",
            "--kind-nodes",
            "3",
            "--pairs",
            "2",
            "--cni",
            "flannel",
            *ONE_CELL,
            "--keep",
        ]
        try:
            done = cnibench(
                *run,
                "--duration",
                "60s",
                "--warmup",
                "1s",
                "--blocks",
                "1",
                *charts,  # without its images, which the nodes have
                cwd=folder,
            )
            kubeconfig, name = kept_cluster(done.stderr)
            assert f"the namespace {name}" in output(
                CNIBENCH, "clean", "--cluster", "existing", "--kubeconfig", kubeconfig
            )
            yield {
                "folder": folder,
                "kubeconfig": kubeconfig,
                "name": name,
                "state": home / "state" / "cnibench",
            }
        finally:  # by its name: others on this machine may have clusters of their own
            for path in (home / "state" / "cnibench" / "clusters").glob("cnibench-*"):
                kind_clusters.delete(path.name)
        assert name not in clusters()


@pytest.fixture
def existing(kept: Mapping[str, Any]) -> list[str]:
    return ["--cluster", "existing", "--kubeconfig", kept["kubeconfig"]]


def on(node: str, *argv: str) -> str:
    """This machine's programs in a node's network."""
    return output(
        "nsenter",
        f"--net=/proc/{output('podman', 'inspect', '-f', '{{.State.Pid}}', node).strip()}/ns/net",
        "--",
        *argv,
    )


def features(node: str) -> str:
    return on(node, "ethtool", "-k", "eth0")


def test_what_was_installed_is_recorded_by_digest(
    kept: Mapping[str, Any], kind_parts: Parts
) -> None:
    installed = json.loads((run_of(kept["folder"]) / "env.json").read_text())["installed"]
    (chart,) = (name for name in installed["flannel"] if not name.startswith("image "))
    assert chart == "chart flannel"
    assert installed["flannel"][chart] == sources.of_path(Path(kind_parts.charts["flannel"]))
    images = {name: said for name, said in installed["flannel"].items() if name != chart}
    assert any("flannel" in name for name in images)
    assert all(re.fullmatch("sha256:[0-9a-f]{64}", said) for said in images.values())


def test_the_pairs_are_measured_at_the_same_time_between_nodes_of_their_own(
    kept: Mapping[str, Any],
) -> None:
    samples = lines(kept["folder"], "samples")
    assert {line["status"] for line in samples} == {"ok"}
    rates = {line["pair"]: line for line in samples if line["metric"] == "transaction_rate"}
    assert sorted(rates) == [0, 1]
    assert max(line["start"] for line in rates.values()) < min(
        line["end"] for line in rates.values()
    )
    assert json.loads((run_of(kept["folder"]) / "env.json").read_text())["pairs"] == [
        "a to b",
        "c to a",
    ]
    assert {line["pair"] for line in samples if line["metric"].startswith("cpu_")} == {0}, (
        "machines are read once"
    )
    attested = lines(kept["folder"], "attestations")
    assert {"encapsulation", "encapsulation-c-to-a"} <= {
        line["check"] for line in attested if line["passed"]
    }
    raw = [path.name for path in (run_of(kept["folder"]) / "raw").iterdir()]
    assert len(raw) == 2
    assert "pair 1" in output(CNIBENCH, "report", run_of(kept["folder"]))


def test_nodes_that_differ_are_named(
    kept: Mapping[str, Any], existing: list[str], tmp_path: Path
) -> None:
    """With an MTU that is one byte less nothing stops: a veth takes 4 bytes more than its MTU."""
    node = f"{kept['name']}-worker2"
    on(node, "ip", "link", "set", "eth0", "mtu", "1499")
    on(node, "ethtool", "-K", "eth0", TSO, "off")
    try:
        doctor = json.loads(cnibench("doctor", *existing, "--json", cwd=tmp_path).stdout)["nodes"][
            "existing"
        ]
        nics = json.loads(cnibench("offload", *existing, "--json", cwd=tmp_path).stdout)
    finally:
        on(node, "ethtool", "-K", "eth0", TSO, "on")
        on(node, "ip", "link", "set", "eth0", "mtu", "1500")
    said = {
        kind: [one["what"] for one in doctor["remarks"] if one["kind"] == kind]
        for kind in ("differs", "disturbs", "unseen")
    }
    assert "MTU of the NIC differs between the nodes: a: 1500, b: 1499" in said["differs"]
    assert f"NIC: {TSO} differs between the nodes: a: on, b: off" in said["differs"]
    assert not [
        line
        for line in said["differs"]
        if "kernel" in line or "CPU model" in line or "clock" in line
    ]
    assert any(
        line.startswith("a packet of 1500 B does not pass from b to a") for line in said["disturbs"]
    )
    assert any(
        "reports no ring sizes" in line or "interrupts are not reported" in line
        for line in said["unseen"]
    )
    assert all(one["remedy"] for one in doctor["remarks"] if one["kind"] != "unseen")
    assert doctor["facts"]["a"]["kernel"] == doctor["facts"]["b"]["kernel"]
    assert abs(doctor["facts"]["b"]["clock_ahead"]) < 0.1, "the nodes of kind have one clock"
    assert f"{TSO} differs between the nodes: a: on, b: off" in nics["asymmetries"]
    assert {(nic["node"], nic["name"], nic["driver"]) for nic in nics["nics"]} == {
        ("a", "eth0", "veth"),
        ("b", "eth0", "veth"),
    }
    assert not namespaces_of_runs(kept)


def test_nics_are_changed_where_it_is_allowed_and_are_as_before(
    kept: Mapping[str, Any], existing: list[str], tmp_path: Path
) -> None:
    nodes = [f"{kept['name']}-worker{number}" for number in ("", "2")]
    before = [features(node) for node in nodes]
    cell = [
        "--cni",
        "current",
        "--placement",
        "inter",
        "--workload",
        "tcp-rr:offload.wire=none:offload.pods=tso-off",
        "--no-perf",
    ]
    said = cnibench("run", *existing, *cell, *SHORT, cwd=tmp_path, status=2).stderr
    assert "--allow-node-changes" in said
    cnibench("run", *existing, *cell, "--allow-node-changes", *SHORT, cwd=tmp_path)
    found = {
        line["place"]: line for line in lines(tmp_path, "conditions") if line["device"] == "eth0"
    }
    assert {place: line["now"][TSO] for place, line in found.items()} == dict.fromkeys(
        ("a", "b", "a0", "b0"), False
    )
    assert all(line["before"][TSO] for line in found.values())
    assert len(lines(tmp_path, "conditions")) == 6, "each Pod's veth has two ends"
    assert [features(node) for node in nodes] == before


def test_a_nic_is_as_before_when_its_changer_is_killed(
    kept: Mapping[str, Any], existing: list[str], tmp_path: Path
) -> None:
    """By its guardian, before ``clean`` may take the namespace. What no guardian restored:
    tests/lab/test_offload_devices.py and tests/unit/test_kubernetes_removal_owner.py.
    """
    node = f"{kept['name']}-worker"
    before = features(node)
    cell = [
        "--cni",
        "current",
        "--placement",
        "inter",
        "--workload",
        "tcp-rr:offload.wire=none",
        "--no-perf",
        "--allow-node-changes",
    ]
    argv = [CNIBENCH, "run", *existing, *cell, "--duration", "300s", "--blocks", "1"]
    with subprocess.Popen(
        argv, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        until(
            lambda: process.poll() is not None or any(tmp_path.glob("runs/*/raw/*/*/client.stdout"))
        )
        assert process.poll() is None, process.communicate()
        assert features(node) != before
        process.send_signal(signal.SIGKILL)
    until(lambda: features(node) == before)
    left = output(CNIBENCH, "clean", *existing)
    assert "the namespace" in left
    assert features(node) == before
    until(
        lambda: (
            not output(
                "podman", "exec", node, "sh", "-c", "ls -d /var/lib/cnibench 2>/dev/null; true"
            ).strip()
        )
    )


def test_a_kubeconfig_that_points_at_production_changes_nothing(
    kept: Mapping[str, Any], tmp_path: Path
) -> None:
    """Its current context is another one than its owner believes."""
    config, context = tmp_path / "config", f"kind-{kept['name']}"
    shutil.copy(kept["kubeconfig"], config)
    output("kubectl", "--kubeconfig", config, "config", "rename-context", context, "production")
    existing = [
        "--cluster",
        "existing",
        "--kubeconfig",
        str(config),
        "--cni",
        "bridge-static",
        *ONE_CELL,
        *SHORT,
    ]
    for golden, allowed in (
        ("production-install", ["--allow-install"]),
        ("production-replace", ["--allow-replace", "staging"]),
    ):
        said = cnibench("run", *existing, *allowed, cwd=tmp_path, status=2).stderr
        assert said == (GOLDEN / f"{golden}.txt").read_text(), golden
    broken = tmp_path / "broken"
    broken.write_text("token: [")
    run = ["run", "--cluster", "existing", "--kubeconfig", broken, "--cni", "current"]
    assert "broken: not YAML" in cnibench(*run, cwd=tmp_path, status=2).stderr
    assert not namespaces_of_runs(kept)


def replaces(kept: Mapping[str, Any], existing: list[str], charts: list[str], folder: Path) -> str:
    """What a run says that replaces flannel, and removes its own CNI at its end."""
    allowed = ["--allow-replace", f"kind-{kept['name']}"]
    run = ["run", *existing, *allowed, "--cni", "flannel-host-gw", *ONE_CELL]
    return cnibench(*run, *charts, *IN_SLICES, cwd=folder).stderr


@pytest.fixture
def replaced(
    kept: Mapping[str, Any],
    existing: list[str],
    charts: list[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """flannel has been replaced: by the test of that, or now where another is carried out alone."""
    if not list(kept["state"].glob("saved/*/flannel.yaml")):
        replaces(kept, existing, charts, tmp_path_factory.mktemp("replaced"))


def test_the_cni_is_replaced_and_its_manifests_are_kept(
    kept: Mapping[str, Any], existing: list[str], charts: list[str], tmp_path: Path
) -> None:
    """What replaced it is removed again at the end; what was there is in a file."""
    said = replaces(kept, existing, charts, tmp_path)
    assert (
        "flannel-host-gw installed on all 3 nodes, one after the other; flannel is removed first,"
        " its manifests are saved" in said
    )
    match = re.search(
        r"flannel is removed from all 3 nodes; its manifests are in (\S+): kubectl apply"
        r" --server-side -f brings it back",
        said,
    )
    assert match, said
    assert "DaemonSet kube-flannel/kube-flannel-ds" in said[: match.start()], "shown before"
    assert "removed from each node, whoever made it" in said[: match.start()]
    for node in kubectl(kept, "get", "nodes", "-o", "name").split():
        name = node.removeprefix("node/")
        (found,) = re.findall(rf"^removed from node {name}: (.*)$", said, re.MULTILINE)
        assert "device flannel.1" in found
        assert str(Path(match[1]).with_name(f"flannel-node-{name}.tar")) in found
    samples = lines(tmp_path, "samples")
    assert {(line["profile"], line["status"]) for line in samples} == {("flannel-host-gw", "ok")}
    assert {line["method"] for line in samples} == {"slices"}
    assert "not read" not in {line["congestion_control"] for line in samples}
    (record,) = lines(tmp_path, "slices")
    assert record["server_cpu"] == "of all turns together"
    assert record["rounds"] == 50
    checks = lines(tmp_path, "attestations")
    assert all(line["passed"] for line in checks)
    compared = {line["check"] for line in checks if line["check"].startswith("kernel-state-")}
    assert compared == {f"kernel-state-{place}" for place in ("a", "b", "a0", "a1", "b0")}
    assert "flannel" not in kubectl(kept, "get", "namespaces,clusterroles", "-o", "name")
    for node in kubectl(kept, "get", "nodes", "-o", "name").split():
        assert "flannel.1" not in on(node.removeprefix("node/"), "ip", "link")
    assert not namespaces_of_runs(kept)


@pytest.mark.usefixtures("replaced")
def test_one_is_installed_where_there_is_none(
    kept: Mapping[str, Any], existing: list[str], tmp_path: Path
) -> None:
    """The kubelets take some seconds to say that there is none any more. Two blocks:
    test_kind_ownership.py.
    """
    run = ["run", *existing, "--cni", "bridge-static", *ONE_CELL, *IN_SLICES]
    until(lambda: "has no CNI, and installing one was not allowed" in refused(run, tmp_path))
    done = cnibench(*run, "--allow-install", cwd=tmp_path)
    assert "bridge-static installed on all 3 nodes" in done.stderr
    samples = lines(tmp_path, "samples")
    assert {(line["profile"], line["status"]) for line in samples} == {("bridge-static", "ok")}
    assert all(line["passed"] for line in lines(tmp_path, "attestations"))
    assert not namespaces_of_runs(kept)
    assert nothing_left(output(CNIBENCH, "clean", *existing))


def refused(run: list[str], folder: Path) -> str:
    done = subprocess.run(
        [CNIBENCH, *run], capture_output=True, text=True, timeout=60, cwd=folder, check=False
    )
    assert done.returncode == 2, done.stderr
    return done.stderr


@pytest.mark.usefixtures("replaced")
def test_what_was_replaced_comes_back_from_its_file(
    kept: Mapping[str, Any], existing: list[str], tmp_path: Path
) -> None:
    (saved,) = kept["state"].glob("saved/*/flannel.yaml")
    kubectl(kept, "apply", "-f", str(saved))
    kubectl(
        kept,
        "rollout",
        "status",
        "-n",
        "kube-flannel",
        "daemonset/kube-flannel-ds",
        "--timeout=120s",
    )
    (cell,) = json.loads(
        cnibench(
            "run",
            *existing,
            "--cni",
            "current",
            "--dry-run",
            "--json",
            *ONE_CELL,
            *SHORT,
            cwd=tmp_path,
        ).stdout
    )["cells"]
    assert cell["profile"] == "flannel"
