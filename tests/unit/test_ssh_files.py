"""What makes a node of a machine, where its programs come from, and what is said of one that was
put back.
"""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import tarfile
from contextlib import ExitStack
from pathlib import Path

import pytest

from cnibench.clusters.ssh import files
from cnibench.clusters.ssh.bringup import join_words
from cnibench.clusters.ssh.machine import _SCRIPTS
from cnibench.clusters.ssh.restoring import comparison
from cnibench.clusters.ssh.sources import architecture, source
from cnibench.errors import ClusterError, InputError

GOLDEN = Path(__file__).parent.parent / "golden" / "ssh"
A, B = files.Node("one", "10.0.0.1"), files.Node("two", "10.0.0.2")


def documents(text: str) -> dict[str, dict[str, object]]:
    found = [json.loads(one) for one in text.split("\n---\n")]
    return {str(one["kind"]): one for one in found}


def test_the_control_plane() -> None:
    made = documents(files.init(A, "v1.34.4", (4,)))
    cluster = made["ClusterConfiguration"]
    assert cluster["kubernetesVersion"] == "v1.34.4"
    # reached through ssh from where cnibench runs, and by its own address from the other node
    assert cluster["apiServer"] == {"certSANs": ["127.0.0.1", "localhost", "10.0.0.1"]}
    assert cluster["networking"] == {"podSubnet": "10.244.0.0/16", "serviceSubnet": "10.96.0.0/16"}
    begun = made["InitConfiguration"]
    assert begun["localAPIEndpoint"] == {"advertiseAddress": "10.0.0.1", "bindPort": 6443}
    registration = begun["nodeRegistration"]
    assert isinstance(registration, dict)
    assert registration["taints"] == []
    assert registration["criSocket"] == f"unix://{files.SOCKET}"
    assert {"name": "node-ip", "value": "10.0.0.1"} in registration["kubeletExtraArgs"]
    kubelet = made["KubeletConfiguration"]
    assert kubelet["nodeStatusUpdateFrequency"] == "2s", "an installation waits for a node's word"
    assert kubelet["imageGCHighThresholdPercent"] == 100


def test_the_other_node() -> None:
    made = documents(files.join(B, A, "a.b", "sha256:00"))["JoinConfiguration"]
    assert made["discovery"] == {
        "bootstrapToken": {
            "apiServerEndpoint": "10.0.0.1:6443",
            "token": "a.b",
            "caCertHashes": ["sha256:00"],
        }
    }
    six = files.join(files.Node("two", "fd00::2"), files.Node("one", "fd00::1"), "a.b", "x")
    assert '"apiServerEndpoint": "[fd00::1]:6443"' in six


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("Alpha", "beta.lan"), ("alpha", "beta.lan")),
        (("node", "node"), ("cnibench-a", "cnibench-b")),
        (("localhost", "beta"), ("cnibench-a", "cnibench-b")),
        (("a_b", "beta"), ("cnibench-a", "cnibench-b")),
    ],
)
def test_the_nodes_names(given: tuple[str, str], expected: tuple[str, str]) -> None:
    assert files.names(*given) == expected


def test_how_the_other_node_joins_is_read() -> None:
    said = (
        "kubeadm join 10.0.0.1:6443 --token 9fzp9b.4ywmrrx2bplq0q6e"
        f" --discovery-token-ca-cert-hash sha256:{'0a' * 32} \n"
    )
    assert join_words(said) == ("9fzp9b.4ywmrrx2bplq0q6e", f"sha256:{'0a' * 32}")
    with pytest.raises(ClusterError, match="no command to join"):
        join_words("could not load the client CA")


def a_folder(path: Path) -> Path:
    for name in ("bin/kubelet", "bin/ctr", "cni/loopback", "images/etcd.tar", "images/readme"):
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"\x7fELF" + bytes(14) + struct.pack("<H", 62))
    kubeadm = path / "bin/kubeadm"
    kubeadm.write_text("#!/bin/sh\necho v1.34.4\n")
    kubeadm.chmod(0o755)
    return path


def test_an_archive_writes_nothing_outside_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "evil").write_text("evil")
    with tarfile.open(tmp_path / "parts.tar", "w") as archive:
        archive.add(tmp_path / "evil", "../../../../../../../../tmp/of-cnibench-tests-evil")
    with ExitStack() as stack, pytest.raises(InputError, match="cannot be unpacked"):
        source(str(tmp_path / "parts.tar"), stack)
    assert not Path("/tmp/of-cnibench-tests-evil").exists()


def test_a_folder_and_an_archive_of_it(tmp_path: Path) -> None:
    folder = a_folder(tmp_path / "parts")
    with tarfile.open(tmp_path / "parts.tar.gz", "w:gz") as archive:
        archive.add(folder, "parts")
    with ExitStack() as stack:
        for given in (folder, tmp_path / "parts.tar.gz"):
            found = source(str(given), stack)
            assert (found.version, found.minor, found.architecture) == ("v1.34.4", 34, "x86_64")
            assert found.has_kubernetes
            assert found.has_plugins
            assert not found.has_runtime
            assert [one.name for one in found.images()] == ["etcd.tar"]
        unpacked = found.folder
        assert unpacked is not None
        assert unpacked.exists()
    assert not unpacked.exists()


def test_a_version_means_packages() -> None:
    with ExitStack() as stack:
        assert str(source(None, stack)) == "packages of Kubernetes v1.34"
        found = source("v1.35.1", stack)
    assert (found.version, found.minor, found.folder) == ("v1.35.1", 35, None)
    assert not found.has_kubernetes
    assert found.images() == []


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda path: shutil.rmtree(path), "expected a version"),
        (lambda path: (path / "bin/kubelet").unlink(), "has no bin/kubeadm and bin/kubelet"),
        (lambda path: (path / "bin/kubeadm").write_text("no program"), "not report its version"),
        (lambda path: (shutil.rmtree(path), path.write_text("x")), "cannot be unpacked"),
    ],
)
def test_a_wrong_folder_is_named(spoil: object, said: str, tmp_path: Path) -> None:
    folder = a_folder(tmp_path / "parts")
    spoil(folder)  # type: ignore[operator]
    with ExitStack() as stack, pytest.raises(InputError, match=said) as caught:
        source(str(folder), stack)
    assert caught.value.remedy


def test_the_kind_of_machine_of_a_program(tmp_path: Path) -> None:
    program = tmp_path / "program"
    for number, name in ((62, "x86_64"), (183, "aarch64"), (8, "")):
        program.write_bytes(b"\x7fELF" + bytes(14) + struct.pack("<H", number))
        assert architecture(program) == name
    program.write_text("#!/bin/sh")
    assert architecture(program) == ""


def test_a_machine_that_is_as_it_was() -> None:
    found = comparison((GOLDEN / "putback.txt").read_text())
    assert found.same
    assert found.compared["package"] == 160
    assert found.words().startswith("as it was before, no difference in")
    assert comparison("nothing\n").words() == "nothing had been changed"


def test_a_machine_that_is_not() -> None:
    found = comparison((GOLDEN / "putback_differs.txt").read_text())
    assert not found.same
    assert found.new == (
        "d /opt/containerd 711 0:0",
        "d /opt/containerd/bin 711 0:0",
        "d /opt/containerd/lib 711 0:0",
    )
    assert found.words().startswith("not as it was before: d /opt/containerd 711 0:0 (new); ")
    failed = comparison("failed: device cni0 stays\n- sysctl a = 1\n+ sysctl a = 2\n")
    assert failed.words() == (
        "not as it was before: device cni0 stays; sysctl a = 2, was 1 (sysctl -w a=1 sets it back)"
    )
    assert "cnibench did not create it" in failed.remedy


def test_a_machine_that_was_restarted() -> None:
    again = comparison((GOLDEN / "putback.txt").read_text() + "restarted\n")
    assert again.same
    assert again.words().endswith("; it was restarted in the meantime")
    lost = comparison("- sysctl a = 1\n+ sysctl a = 2\nrestarted\n")
    assert lost.words().endswith("; it was restarted in the meantime")
    assert "set it again" in lost.remedy


@pytest.mark.parametrize("script", sorted(_SCRIPTS.glob("*.sh")), ids=lambda path: path.name)
def test_the_scripts_are_of_a_plain_shell(script: Path) -> None:
    done = subprocess.run(["sh", "-n", script], capture_output=True, text=True, check=False)
    assert done.stderr == ""


def listing(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "before"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def carried_out(script: str, folder: Path) -> str:
    """Lines of the shell with what all scripts share, its folder elsewhere."""
    common = (_SCRIPTS / "common.sh").read_text().replace("/var/lib/cnibench\n", f"{folder}\n")
    done = subprocess.run(
        ["sh", "-c", f"{common}\n{script}"], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return done.stdout


def test_the_journal_has_the_topmost_folder_that_was_missing(tmp_path: Path) -> None:
    there = tmp_path / "opt"
    there.mkdir()
    folder = tmp_path / "journal-folder"
    folder.mkdir()
    carried_out(
        f"will_make {there}/cni/bin/loopback; will_make {there}/cni/bin; will_make {there}"
        f"; will_make {there}/file",
        folder,
    )
    assert (folder / "journal").read_text().splitlines() == [
        f"new {there}/cni",
        f"new {there}/file",
    ]
