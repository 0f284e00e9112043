"""Programs in the Pods of kind's nodes, started from this machine: in which control group, and that
there is room for all clusters at once.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cnibench.clusters.kind.cluster import KindCluster
from cnibench.clusters.kind.pods import JOIN, cgroup
from cnibench.errors import NoSlicesError
from cnibench.system import memory
from cnibench.testbed.cluster import Options

# Lines of real files: a Pod of kind (podman 4.3) on a machine with cgroup2 only, and on one with
# both versions.
POD = "0::/libpod_parent/libpod-1f/kubelet.slice/kubelet-kubepods.slice/pod7.slice/cri-9.scope\n"
BOTH = "9:name=systemd:/libpod-1f/kubelet/kubepods/besteffort/pod7/9\n5:devices:/libpod-1f\n0::/\n"
SHELL = "0::/user.slice/user-0.slice/session-1.scope\n"
ONE = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid,nodev,noexec,relatime 0 0\n"
HYBRID = (
    "tmpfs /sys/fs/cgroup tmpfs rw,relatime,mode=755 0 0\n"
    "cgroup /sys/fs/cgroup/devices cgroup rw,relatime,devices 0 0\n"
    "cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n"
)


@pytest.mark.parametrize(
    ("pod", "own", "mounts", "found"),
    [
        (POD, SHELL, ONE, f"/sys/fs/cgroup{POD[3:-1]}/cgroup.procs"),
        (POD, SHELL, HYBRID, f"/sys/fs/cgroup/unified{POD[3:-1]}/cgroup.procs"),
        ("0::/\n", SHELL, ONE, "/sys/fs/cgroup/cgroup.procs"),
        (BOTH, "9:name=systemd:/\n5:devices:/\n0::/\n", HYBRID, ""),
        (BOTH.replace("0::/\n", ""), SHELL, HYBRID, ""),
        (POD, SHELL, HYBRID.replace("cgroup2", "tmpfs"), ""),
    ],
    ids=["cgroup2", "both", "root", "in it anyway", "version 1", "not mounted"],
)
def test_a_program_joins_the_cgroup2_of_its_pod(
    pod: str, own: str, mounts: str, found: str
) -> None:
    assert cgroup(pod, own, mounts) == found


def test_a_program_becomes_what_it_runs_once_it_is_in_the_control_group(tmp_path: Path) -> None:
    joined = tmp_path / "cgroup.procs"
    words = ["sh", "-c", JOIN, "sh", str(joined), "sh", "-c", "echo $$ $0 $1", "a b", "c"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == f"{joined.read_text().strip()} a b c\n"
    refused = [*words[:4], str(tmp_path / "gone" / "cgroup.procs"), "echo", "it ran"]
    done = subprocess.run(refused, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("", 2)


def test_clusters_that_have_no_room_at_once_are_refused_before_one_is_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "of_machine", lambda: 2 << 30)
    cluster = KindCluster(Options())
    cluster.require_room(2)
    with pytest.raises(NoSlicesError) as error:
        cluster.require_room(3)
    assert error.value.message == "3 kind clusters at once take about 2700 MiB; 2048 MiB are free"
    assert error.value.remedy == "measure fewer profiles at once, or use --method windows"
