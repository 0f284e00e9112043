"""What the comparison with a real agent does without one: differences of listings, checks of
programs, images, manifests, plugins' answers, and the digest of a model.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import struct
import tarfile
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cnibench.cli.measurement.certificate import adapter_of, certify
from cnibench.clusters.lab import cluster as lab_cluster
from cnibench.clusters.lab import kernel
from cnibench.clusters.lab.builders.base import builder_of, builders
from cnibench.clusters.lab.cluster import LabCluster
from cnibench.clusters.lab.fidelity import digest, image, needs, plugin, programs
from cnibench.clusters.lab.fidelity.adapter import Adapter
from cnibench.clusters.lab.fidelity.comparison import differences
from cnibench.clusters.lab.fidelity.deployment import Setup
from cnibench.clusters.lab.fidelity.manifest import objects
from cnibench.errors import ClusterError, CnibenchError, InputError, MissingError
from cnibench.model.profile import builtin
from cnibench.registry import providers

# --- differences


def test_what_only_one_side_has_is_a_difference() -> None:
    (found,) = differences(
        {"a: routes": ["10.0.0.0/8 dev x", "default dev x"]},
        {"a: routes": ["default dev x", "10.1.0.0/16 dev x"]},
        {},
        {},
    )
    assert (found.place, found.part) == ("a", "routes")
    assert (found.expected, found.found) == (["10.0.0.0/8 dev x"], ["10.1.0.0/16 dev x"])


def test_names_that_a_plugin_drew_are_those_of_the_model() -> None:
    """On its own node alone, wherever a line has them; the order of lines follows the names."""
    ports = {"a": {"veth3f2": "veth1", "veth9": "veth0"}, "b": {"veth9": "veth1"}}
    expected = {
        "a: devices": ["veth0 mtu 1500", "veth1 mtu 1400"],
        "a: neighbours": ["fdb x b:veth1"],
        "b: devices": ["veth1 mtu 1"],
        "c: devices": ["veth9 mtu 1"],
    }
    found = {
        "a: devices": ["veth3f2 mtu 1400", "veth9 mtu 1500"],
        "a: neighbours": ["fdb x b:veth9"],
        "b: devices": ["veth9 mtu 1"],
        "c: devices": ["veth9 mtu 1"],
    }
    assert differences(expected, found, ports, {}) == []


def test_addresses_that_the_agent_chose_are_those_of_the_model() -> None:
    expected, found = ["10.244.0.2 dev x", "10.244.0.3/32 dev y"], ["10.244.0.7 dev x"]
    given = {"10.244.0.7": "10.244.0.2", "10.244.0.77": "10.244.0.3"}
    found.append("10.244.0.77/32 dev y")
    assert differences({"a: routes": expected}, {"a: routes": found}, {}, given) == []


CHAINS = r"for (\w+) -j (POD-\w+)"


def _saved(a: str, b: str, first: str, second: str) -> list[str]:
    """As iptables-save writes it: the chains in the order of their names."""
    declared = sorted((f":{a} -", f":{b} -"))
    rules = sorted((f"-A {a} -j DROP", f"-A {b} -j ACCEPT"))
    names = {"a": a, "b": b}
    top = [f"-A TOP for {one} -j {names[one]}" for one in (first, second)]
    return ["*filter", *declared, ":TOP -", *rules, *top, "-A TOP -j LOG", "COMMIT"]


def test_chains_that_an_agent_draws_are_those_of_the_model() -> None:
    """Also where their names order them otherwise, and where the agent takes Pods in any order."""
    expected = {"a: iptables-nft-save": _saved("POD-1", "POD-2", "a", "b")}
    found = {"a: iptables-nft-save": _saved("POD-Z", "POD-Y", "b", "a")}
    assert differences(expected, found, {}, {}, CHAINS) == []
    assert differences(expected, found, {}, {})
    swapped = {"a: iptables-nft-save": _saved("POD-Z", "POD-Y", "b", "a")}
    swapped["a: iptables-nft-save"][4:6] = ["-A POD-Z -j ACCEPT", "-A POD-Y -j DROP"]
    (difference,) = differences(expected, swapped, {}, {}, CHAINS)
    assert difference.expected == ["-A POD-1 -j DROP", "-A POD-2 -j ACCEPT"]
    last = {"a: iptables-nft-save": _saved("POD-Z", "POD-Y", "b", "a")}
    lines = last["a: iptables-nft-save"]
    lines.insert(6, lines.pop(8))  # what leads to no such chain has its place
    assert differences(expected, last, {}, {}, CHAINS)


def test_a_section_that_one_side_lacks_is_a_difference() -> None:
    found = differences({"a: ipsec": ["state"]}, {"b: wireguard": ["peer"]}, {}, {})
    assert [(one.place, one.part) for one in found] == [("a", "ipsec"), ("b", "wireguard")]


@pytest.mark.parametrize("part", ["routing rules", "iptables-nft-save", "hooks"])
def test_the_order_counts_where_the_kernel_keeps_it(part: str) -> None:
    assert differences({f"a: {part}": ["1", "2"]}, {f"a: {part}": ["2", "1"]}, {}, {})


def test_a_setting_that_a_module_brought_meanwhile_is_none() -> None:
    before, after = ["net/a 1", "net/b 1"], ["net/a 1", "net/b 2", "net/c 1"]
    (found,) = differences({"a: sysctls": before}, {"a: sysctls": after}, {}, {})
    assert (found.expected, found.found) == (["net/b 1"], ["net/b 2"])


# --- programs

HERE, OTHER = programs.MACHINES.get(os.uname().machine, 62), 183


def _elf(path: Path, machine: int, mode: int = 0o755) -> Path:
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HH", 2, machine)
    path.write_bytes(head + bytes(100))
    path.chmod(mode)
    return path


def test_a_program_for_this_machine_is_taken(tmp_path: Path) -> None:
    assert programs.check(_elf(tmp_path / "x", HERE)) == tmp_path / "x"


@pytest.mark.parametrize(
    ("make", "kind", "said"),
    [
        (lambda path: path, InputError, "there is no such program"),
        (lambda path: path.mkdir() or path, InputError, "a folder"),
        (lambda path: _elf(path, HERE, 0o644), InputError, "not executable"),
        (lambda path: _elf(path, OTHER), MissingError, "another architecture.*aarch64"),
        (lambda path: path.write_text("hello") and path, InputError, "no ELF header|executable"),
    ],
)
def test_what_cannot_run_here_is_named(
    tmp_path: Path, make: object, kind: type[CnibenchError], said: str
) -> None:
    with pytest.raises(kind, match=said) as error:
        programs.check(make(tmp_path / "x"))  # type: ignore[operator]
    assert str(tmp_path / "x") in error.value.message
    assert error.value.remedy


def test_a_program_whose_loader_is_not_here_is_named(tmp_path: Path) -> None:
    """As one that was made for musl, where there is none: the kernel says only ENOENT."""

    def made(loader: str) -> Path:
        path = _elf(tmp_path / "x", HERE)
        content = bytearray(path.read_bytes())
        content[32:40] = struct.pack("<Q", 64)  # e_phoff
        content[54:58] = struct.pack("<HH", 56, 1)  # e_phentsize, e_phnum
        name = loader.encode() + b"\0"
        header = struct.pack("<IIQQQQQQ", 3, 4, 120, 0, 0, len(name), len(name), 1)
        path.write_bytes(bytes(content[:64]) + header + name)
        return path

    assert programs.check(made("/bin/sh"))
    with pytest.raises(MissingError, match="it needs the loader /lib/ld-nothing"):
        programs.check(made("/lib/ld-nothing"))


def test_a_program_out_of_an_image_is_called_by_the_images_name(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"^example\.org/agent:v1: /x: for another architecture"):
        programs.check(_elf(tmp_path / "x", OTHER), "example.org/agent:v1: /x")


def test_a_text_that_is_executable_is_not_a_program(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("hello")
    (tmp_path / "x").chmod(0o755)
    with pytest.raises(InputError, match="no ELF header"):
        programs.check(tmp_path / "x")


def test_a_program_that_is_nowhere_is_missing_with_its_remedy(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="kube-nothing") as error:
        programs.found("kube-nothing", [tmp_path], "get it there")
    assert error.value.remedy == "get it there"


def test_plugins_are_found_where_all_of_them_are(tmp_path: Path) -> None:
    (tmp_path / "cni").mkdir()
    _elf(tmp_path / "cni" / "one", HERE)
    with pytest.raises(MissingError, match="one, two"):
        programs.plugins(("one", "two"), [tmp_path])
    _elf(tmp_path / "cni" / "two", HERE)
    assert programs.plugins(("one", "two"), [tmp_path]) == tmp_path / "cni"


def test_the_version_is_what_the_program_prints(tmp_path: Path) -> None:
    path = tmp_path / "agent"
    path.write_text("#!/bin/sh\necho 'agent version v1.2.3, go1.26'\n")
    path.chmod(0o755)
    assert programs.version([str(path), "--version"]) == "v1.2.3"
    path.write_text("#!/bin/sh\nexit 3\n")
    assert programs.version([str(path)]) == "unknown"


# --- images


def _image(layers: list[Mapping[str, bytes | str]]) -> io.BytesIO:
    """As podman and docker save it; a string is where a link leads."""
    outer = io.BytesIO()
    with tarfile.open(fileobj=outer, mode="w") as archive:
        names = []
        for number, layer in enumerate(layers):
            inner = io.BytesIO()
            with tarfile.open(fileobj=inner, mode="w:gz" if number else "w") as tar:
                for name, content in layer.items():
                    entry = tarfile.TarInfo(name)
                    if isinstance(content, str):
                        entry.type, entry.linkname = tarfile.SYMTYPE, content
                        tar.addfile(entry)
                    else:
                        entry.size = len(content)
                        tar.addfile(entry, io.BytesIO(content))
            names.append(f"{number}/layer.tar")
            _put(archive, names[-1], inner.getvalue())
        _put(archive, "manifest.json", json.dumps([{"Layers": names}]).encode())
    outer.seek(0)
    return outer


def _put(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def test_the_last_layer_that_has_the_program_counts() -> None:
    made = _image([{"opt/bin/x": b"old"}, {"./opt/bin/x": b"new"}, {"etc/y": b""}])
    assert image.extracted(made, "/opt/bin/x", "i") == b"new"


def test_links_are_followed_within_the_image() -> None:
    made = _image([{"usr/bin/real": b"it"}, {"bin/x": "../usr/bin/real"}])
    assert image.extracted(made, "/bin/x", "i") == b"it"


@pytest.mark.parametrize("layer", [{"a": b""}, {"x": "x"}, {"x": "gone"}])
def test_an_image_without_the_program_is_named(layer: Mapping[str, bytes | str]) -> None:
    with pytest.raises(InputError, match="i: /x is not in it"):
        image.extracted(_image([layer]), "/x", "i")


def test_an_archive_that_is_no_image_is_named() -> None:
    with pytest.raises(InputError, match="not an image"):
        image.extracted(io.BytesIO(b"nothing"), "/x", "i")


def test_without_a_runtime_an_image_is_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image.shutil, "which", lambda name: None)
    with (
        pytest.raises(MissingError, match="without podman or docker"),
        image.program("example.org/agent:v1", "/x"),
    ):
        pass


def test_an_image_that_cannot_be_pulled_is_named_with_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = tmp_path / "podman"
    runtime.write_text("#!/bin/sh\necho warning >&2; echo 'Error: no such name' >&2; exit 125\n")
    runtime.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with (
        pytest.raises(ClusterError, match=r"x/agent:1: .*pulled: Error: no such name$") as error,
        image.program("x/agent:1", "/agent"),
    ):
        pass
    assert "name the program" in error.value.remedy


def test_what_the_kernel_lacks_is_said_once_and_no_vm_is_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A certificate is of the running kernel."""
    for name in ("flanneld", "kube-apiserver", "etcd", "flannel", "bridge", "host-local"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    has = dict.fromkeys(kernel.FEATURES, True) | {"wireguard": False}
    monkeypatch.setattr(kernel, "found", lambda needs=(): has)
    monkeypatch.setattr(LabCluster, "missing", lambda self: [])
    monkeypatch.setattr(lab_cluster.shutil, "which", lambda name: f"/usr/bin/{name}")
    with pytest.raises(MissingError) as error:
        certify("flannel-wireguard", str(tmp_path / "flanneld"), [tmp_path], [], [], 1, tmp_path)
    assert error.value.message == (
        "this machine cannot run flannel-wireguard: CONFIG_WIREGUARD (WireGuard)"
    )
    assert error.value.remedy.endswith("use a kernel with CONFIG_WIREGUARD")
    assert "--kernel" not in error.value.remedy


def test_a_name_that_is_no_image_either_is_a_program_that_is_not_there() -> None:
    with pytest.raises(InputError, match="no such program"), image.program("flaneld", "/x"):
        pass


# --- manifests and plugins


def test_objects_of_a_manifest(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text("apiVersion: v1\nkind: A\nmetadata: {name: x}\n---\n---\n")
    assert [one["kind"] for one in objects([path])] == ["A"]


@pytest.mark.parametrize("text", ["a: [", "- 1", "kind: A", "apiVersion: 1\nkind: A\nmetadata: 2"])
def test_a_manifest_that_is_none_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"m\.yaml"):
        objects([path])


def test_a_plugins_answer() -> None:
    answer = {
        "interfaces": [
            {"name": "cni0"},
            {"name": "veth1a"},
            {"name": "eth0", "sandbox": "/proc/1/fd/3"},
        ],
        "ips": [{"address": "10.244.0.2/24"}, {"address": "fd00::2/64"}],
    }
    made = plugin.parsed(json.dumps(answer))
    assert made == ("veth1a", {4: "10.244.0.2", 6: "fd00::2"})
    with pytest.raises(ClusterError, match="not a result"):
        plugin.parsed("nothing")


# --- what an agent needs that the user gives


def _definition(name: str) -> dict[str, object]:
    return {"kind": "CustomResourceDefinition", "metadata": {"name": name}}


def test_definitions_that_an_agent_waits_for_are_missed_before_anything_starts() -> None:
    felix = providers("clusters.lab.agents")["calico-node"]
    with pytest.raises(InputError, match=r"ippools\.crd\.projectcalico\.org") as error:
        needs.check(felix, "/calico-node", [_definition(felix.definitions[0])])
    assert "--manifest" in error.value.remedy
    needs.check(felix, "/calico-node", [_definition(name) for name in felix.definitions])


def test_definitions_are_created_before_objects_of_their_kinds() -> None:
    definition = {"kind": "CustomResourceDefinition", "metadata": {"name": "ippools.example"}}
    adapters: Mapping[str, type[Adapter]] = providers("clusters.lab.agents")
    felix = next(one for one in adapters.values() if one.name == "calico-node")
    setup = Setup(felix, "calico-node", {}, Path("/"), [definition])
    kinds = [one["kind"] for one in setup.ordered(felix(_model("calico-np-vxlan")))]
    assert kinds == ["CustomResourceDefinition", "ClusterInformation", "Tier", "IPPool"]


def _model(name: str) -> Any:
    """Of a profile, as far as an adapter reads it before anything is deployed."""
    profile = builtin()[name]
    _, options = builder_of(profile)
    return SimpleNamespace(options=options, deployment=SimpleNamespace(claim=profile.datapath))


def test_a_profile_with_policies_has_them_as_an_object_of_kubernetes() -> None:
    felix = providers("clusters.lab.agents")["calico-node"]
    *_, policy = felix(_model("calico-wp-xsub")).objects()
    assert (policy["kind"], policy["metadata"]["namespace"]) == ("NetworkPolicy", "cnibench")
    (rule,) = policy["spec"]["ingress"]
    assert {"protocol": "UDP", "port": 5201, "endPort": 5299} in rule["ports"]
    assert {"protocol": "TCP", "port": 80} in rule["ports"]


@pytest.mark.parametrize(
    ("name", "bird"), [("calico-np-vxlan", False), ("calico-np-xsub", True), ("flannel", False)]
)
def test_routes_of_bird_are_not_compared(name: str, bird: bool) -> None:
    profile = builtin()[name]
    found = adapter_of(profile).apart(profile)
    assert any("BIRD" in one for one in found) == bird


def test_nothing_of_calico_without_chains_is_its_agents() -> None:
    profile = builtin()["calico-bare-xsub"]
    assert "no chains" in adapter_of(profile).unsupported(profile)


def test_what_lies_beside_an_agent_is_in_no_image_that_is_named(tmp_path: Path) -> None:
    cilium = providers("clusters.lab.agents")["cilium-agent"]
    given = [_definition(name) for name in cilium.definitions]
    agent = str(tmp_path / "cilium-agent")
    for name in ("quay.io/cilium/cilium:v1.15.19", agent):
        with pytest.raises(InputError, match="needs bpf in its folder"):
            needs.check(cilium, name, given)
    (tmp_path / "bpf").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(needs.shutil, "which", lambda name: None)
        with pytest.raises(MissingError, match="runs clang"):
            needs.check(cilium, agent, given)
        patch.setattr(needs.shutil, "which", lambda name: f"/usr/bin/{name}")
        needs.check(cilium, agent, given)


# --- the digest of a model


def test_every_model_has_a_digest_of_its_own() -> None:
    models = {name: one for name, one in builtin().items() if one.datapath}
    found = {digest.model_digest(profile) for profile in models.values()}
    assert len(found) == len(models)


@pytest.mark.parametrize(("name", "changes"), [("cilium", True), ("flannel", False)])
def test_ebpf_programs_are_part_of_the_models_that_load_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, changes: bool
) -> None:
    before = digest.model_digest(builtin()[name])
    shutil.copytree(digest._LAB / "bpf", tmp_path / "bpf")
    source = tmp_path / "bpf" / "policy.h"
    source.write_text(source.read_text() + "#define DENY 1\n")
    of_programs = digest._of_programs
    monkeypatch.setattr(digest, "_of_programs", lambda folder: of_programs(tmp_path / "bpf"))
    assert (digest.model_digest(builtin()[name]) != before) is changes


@pytest.mark.parametrize(
    ("name", "module", "changes"),
    [
        ("flannel-udp", "daemons.processes", True),
        ("flannel", "namespaces.links", True),
        ("flannel-wireguard", "daemons.wireguard", True),
        ("flannel", "daemons.wireguard", False),
        ("flannel", "namespaces.sysctls", False),  # of nodes, which the agent's are alike
    ],
)
def test_what_makes_a_models_kernel_objects_is_part_of_it(
    monkeypatch: pytest.MonkeyPatch, name: str, module: str, changes: bool
) -> None:
    before = digest.model_digest(builtin()[name])
    of_module = digest._of_module
    changed = f"cnibench.clusters.lab.{module}"
    monkeypatch.setattr(
        digest, "_of_module", lambda name: "changed" if name == changed else of_module(name)
    )
    assert (digest.model_digest(builtin()[name]) != before) is changes


@pytest.mark.parametrize(("name", "changes"), [("flannel-udp", True), ("flannel", False)])
def test_programs_that_a_model_runs_are_part_of_it(
    monkeypatch: pytest.MonkeyPatch, name: str, changes: bool
) -> None:
    before = digest.model_digest(builtin()[name])
    of_programs = digest._of_programs
    monkeypatch.setattr(
        digest,
        "_of_programs",
        lambda folder: "changed" if folder.name == "programs" else of_programs(folder),
    )
    assert (digest.model_digest(builtin()[name]) != before) is changes


def test_comments_and_docstrings_are_not_the_model_and_code_is() -> None:
    def words(text: str) -> list[str]:
        return list(digest._words(digest.ast.parse(text)))

    plain = words("def f():\n    return 1\n")
    assert words('"""A."""\n\n\ndef f():  # one\n    """B."""\n    return (1)\n') == plain
    assert words("def f():\n    return 2\n") != plain


# --- adapters


def test_each_adapter_is_of_models_that_there_are_and_says_whether_it_was_tried() -> None:
    known = builders()
    found = providers("clusters.lab.agents")
    assert found.keys() == {"flanneld", "kube-router", "calico-node", "cilium-agent"}
    names = [model for adapter in found.values() for model in adapter.models]
    assert set(names) <= known.keys()
    assert len(names) == len(set(names))
    for adapter in found.values():
        assert adapter.inside.startswith("/")
        assert isinstance(adapter.tried, str)
