"""A cluster that several users and machines share: what a live run uses stays, what a dead one left
goes, an outage spoils no figure.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from _kind_runs import CNIBENCH, ONE_CELL, lines, output, run_of, run_shop, until

from cnibench.clusters.kubernetes.cni import recognise
from cnibench.clusters.kubernetes.ownership.namespace import Claim

if TYPE_CHECKING:
    from _kind_cluster import Kept

pytestmark = pytest.mark.timeout(600)
LIMIT = 200.0
CELL = (*ONE_CELL, "--method", "windows", "--warmup", "0s", "--blocks", "1")


class User:
    """Somebody with a state folder of their own, on the machine ``host`` ('': this one)."""

    def __init__(self, folder: Path, cluster: Kept, host: str = "") -> None:
        self.folder = folder
        self.folder.mkdir()
        self.kubeconfig = str(cluster.access.kubeconfig)
        self.context = cluster.access.context
        self._environment = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
        self._before = (
            ["unshare", "--uts", "sh", "-c", f'hostname {host} && exec "$@"', "sh"] if host else []
        )

    def argv(self, *words: str) -> list[str]:
        return [
            *self._before,
            CNIBENCH,
            words[0],
            "--cluster",
            "existing",
            "--kubeconfig",
            self.kubeconfig,
            *words[1:],
        ]

    def clean(self, *words: str, status: int = 0) -> str:
        done = subprocess.run(
            self.argv("clean", *words),
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        assert done.returncode == status, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv("run", *words),
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )

    @contextlib.contextmanager
    def running(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """A run with a CNI of its own, in its first window."""
        run = self.argv(
            "run", "--toleration", "all", "--allow-install", "--cni", "bridge-static", *CELL, *words
        )
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(
            run, cwd=self.folder, env=self._environment, text=True, **pipes
        ) as process:
            try:
                until(lambda: self._measures(process))
                yield process
            finally:
                process.kill()

    def _measures(self, process: subprocess.Popen[str]) -> bool:
        assert process.poll() is None, process.communicate()[1]
        return any(self.folder.glob("runs/*/raw/*/*/client.stdout"))

    @property
    def owner(self) -> str:
        return (self.folder / "state" / "cnibench" / "owner").read_text().strip()


def kubectl(user: User, *words: str) -> str:
    return output("kubectl", "--kubeconfig", user.kubeconfig, *words)


def space(user: User, cluster: Kept) -> str:
    """The namespace of the one run."""
    items = kubectl(
        user,
        "get",
        "ns",
        "-l",
        "app.kubernetes.io/managed-by=cnibench",
        "-o",
        "jsonpath={.items[*].metadata.name}",
    )
    (name,) = set(items.split()) - {cluster.making.namespace}
    return name


def test_of_several_installations_the_last_one_is_kept(bare_cluster: Kept, tmp_path: Path) -> None:
    """Each block has its own, and Pods that are connected to it."""
    one = User(tmp_path / "one", bare_cluster)
    run = ("--allow-install", "--toleration", "all", "--cni", "bridge-static", *CELL)
    try:
        done = one.run(*run, "--duration", "3s", "--blocks", "2", "--keep")
        assert done.returncode == 0, done.stderr
        assert {line["status"] for line in lines(one.folder, "samples")} == {"ok"}
        checks = lines(one.folder, "attestations")
        assert all(check["passed"] for check in checks)
        assert {"reach-intra", "intra-stays-inside", "reach-inter", "encapsulation", "mtu"} <= {
            check["check"] for check in checks
        }
        assert recognise.current(bare_cluster.access)[0] == "bridge-static"
        name = space(one, bare_cluster)
        assert "a0" in kubectl(one, "get", "pods", "-n", name)
        assert "removed: the profile bridge-static" in one.clean("--allow-install")
        assert bare_cluster.left(bare_cluster.bare) == []
    finally:
        bare_cluster.remove()


def test_clean_obeys_the_checks_of_run_from_wherever_it_is_called(
    bare_cluster: Kept, tmp_path: Path
) -> None:
    one, other = (
        User(tmp_path / "one", bare_cluster),
        User(tmp_path / "other", bare_cluster, host="elsewhere"),
    )
    try:
        with one.running("--duration", "120s") as process:
            name = space(one, bare_cluster)
            said = other.clean("--allow-install", "--owner", one.owner)
            assert (
                f"the profile bridge-static on the cluster of the context {one.context}: the run"
                f" {name} uses it" in said
            )
            assert (
                f"the namespace {name} on the cluster of the context {one.context}: a run of"
                f" {one.owner} uses it" in said
            )
            assert process.poll() is None
            assert space(one, bare_cluster) == name
            process.send_signal(signal.SIGKILL)
        run_shop(one.kubeconfig, bare_cluster.making.workload_image)
        said = one.clean("--allow-install", status=2)
        assert f"removed: the namespace {name}" in said
        assert "1 Pod of others (default/shop)" in said
        assert "Running" in kubectl(one, "get", "pod", "shop")
        kubectl(one, "delete", "pod", "shop", "--force", "--grace-period=0")
        assert f"cnibench clean --cluster existing --owner {one.owner} removes it" in other.clean(
            "--allow-install"
        )
        assert "removing it was not allowed" in one.clean(status=2)
        assert "would remove: the profile bridge-static" in one.clean(
            "--allow-install", "--dry-run"
        )
        assert "removed: the profile bridge-static" in other.clean(
            "--allow-install", "--owner", one.owner
        )
        assert "removed" not in one.clean()
    finally:
        bare_cluster.remove()
        kubectl(one, "delete", "pod", "shop", "--force", "--grace-period=0", "--ignore-not-found")


def test_what_is_measured_while_the_api_server_is_silent_is_measured_again(
    bare_cluster: Kept, tmp_path: Path
) -> None:
    """Another run begins after that. It keeps its network."""
    user = User(tmp_path / "user", bare_cluster)
    node = f"{bare_cluster.cluster.name}-control-plane"
    server = output("podman", "exec", node, "pidof", "kube-apiserver").strip()
    access, making = bare_cluster.access, bare_cluster.making
    try:
        with user.running("--duration", "8s") as process:
            output("podman", "exec", node, "kill", "-STOP", server)
            try:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(20)
            finally:
                output("podman", "exec", node, "kill", "-CONT", server)
            until(lambda: access.call("GET", "/readyz").ok)
            other = Claim(access, making.given(making.rights, f"{making.namespace}-more"))
            try:
                said = process.communicate(timeout=LIMIT)[1]
            finally:
                other.remove()
        assert process.returncode == 1, said
        assert "bridge-static is not removed, because that run would lose its network" in said
        assert "removed: the profile bridge-static" in user.clean("--allow-install")
    finally:
        bare_cluster.remove()
    assert "the cluster did not answer for" in said
    (outage,) = [event for event in lines(user.folder, "events") if event["event"] == "outage"]
    assert 5 < outage["seconds"] < 120  # it is noticed by a renewal that fails, some seconds later
    assert {line["status"] for line in lines(user.folder, "samples")} == {"ok"}
    assert min(line["start"] for line in lines(user.folder, "samples")) > outage["start"]
    assert list(run_of(user.folder).glob("raw/*/0.interrupted-1"))


def test_a_run_whose_namespace_is_deleted_says_so_and_stops(
    bare_cluster: Kept, tmp_path: Path
) -> None:
    user = User(tmp_path / "user", bare_cluster)
    try:
        with user.running("--duration", "5s", "--blocks", "3") as process:
            name = space(user, bare_cluster)
            kubectl(user, "delete", "ns", name, "--wait=false")
            said = process.communicate(timeout=LIMIT)[1]
        assert process.returncode == 1, said
        assert f"error: somebody else has deleted the namespace {name}; this run stops" in said
        assert f"cnibench run --resume {run_of(user.folder)}" in said
        until(lambda: name not in kubectl(user, "get", "ns"))
        assert "removed: the profile bridge-static" in user.clean("--allow-install")
    finally:
        bare_cluster.remove()
