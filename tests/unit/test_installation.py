"""How profiles are installed on Kubernetes: the section's model, what it renders to, and what it
can never remove.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.cni import files, manifests, pod_specs, recognise, variables
from cnibench.clusters.kubernetes.cni.attest import claims
from cnibench.errors import InputError, UsageError
from cnibench.model.installation import Installation, Leaves, Step, Wait
from cnibench.model.profile import Profile, builtin, read_profile
from tests.unit._manifests import Cluster, node

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: one
contexts: [{name: one, context: {cluster: one, user: one}}]
clusters: [{name: one, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: one, user: {}}]
"""
VARIABLES = {
    "pod_cidr": "10.244.0.0/16",
    "service_cidr": "10.96.0.0/12",
    "api_host": "192.0.2.1",
    "api_port": "6443",
}
INSTALLED = {
    name: profile
    for name, profile in builtin().items()
    if profile.kubernetes and profile.kubernetes.steps
}
OWN = [  # installed from manifests in the repository alone
    name
    for name, profile in INSTALLED.items()
    if profile.kubernetes
    and all(step.manifest and step.manifest.file for step in profile.kubernetes.steps)
]
WANTED = {  # the modes that there must be at least
    "flannel",
    "flannel-host-gw",
    "flannel-udp",
    "flannel-wireguard",
    "flannel-ipip",
    "calico-wp-ipip",
    "calico-np-ipip",
    "calico-wp-vxlan",
    "calico-np-vxlan",
    "calico-wp-xsub",
    "calico-np-xsub",
    "calico-ebpf",
    "calico-nftables",
    "calico-wireguard",
    "cilium",
    "cilium-geneve",
    "cilium-native",
    "cilium-kpr",
    "cilium-wireguard",
    "cilium-ipsec",
    "kube-router",
    "kube-router-ipip",
    "weave",
    "weave-sleeve",
    "weave-encrypted",
    "kindnet",
    "kindnetd",
    "calico-default",
    "calico-manifest",
    "kube-router-default",
    "weave-npc",
    "cilium-default",
    "antrea",
    "bridge-static",
    "veth-baseline",
}


@pytest.fixture
def access(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Access:
    """A cluster that nobody asks: for what only reads files."""
    path = tmp_path / "config"
    path.write_text(KUBECONFIG)
    found = Access(path)
    found.__dict__["server_version"] = "v1.34.4"
    return found


def test_every_mode_is_there() -> None:
    assert set(INSTALLED) >= WANTED


@pytest.mark.parametrize("name", sorted(INSTALLED))
def test_section(name: str) -> None:
    profile = INSTALLED[name]
    about = profile.kubernetes
    assert about is not None
    assert about.leaves.files, "every CNI leaves at least its configuration"
    assert any("/etc/cni/net.d/" in path for path in about.leaves.files)
    assert about.recognise
    assert Installation.model_validate_json(about.model_dump_json()) == about, (
        "it is written into the cluster, and read again"
    )
    assert about.ready or any(step.reference for step in about.steps)
    encapsulation, overhead = claims(profile)
    assert (encapsulation == "none") == (profile.features.mode == "underlay")
    if not about.between_subnets:  # there is room for a tunnel that most packets do not take
        assert (overhead[4] > 0 or about.mtu > 0) == (encapsulation != "none")
    if encapsulation not in ("none", "esp"):
        assert about.tunnel, "a tunnel's device is counted"
    assert (about.policy == "none") or profile.features.policy.kubernetes
    for step in about.steps:
        if step.chart:
            assert step.chart.version not in ("", "latest")
        if step.manifest and step.manifest.file:
            text = (files.FOLDER / step.manifest.file).read_text()
            known = set(step.manifest.options) | set(VARIABLES) | {"random:20", "random:16"}
            assert set(variables.VARIABLE.findall(text)) <= {
                (mark, key) for mark in ("", "?") for key in known
            }
            for image in (value for key, value in step.manifest.options.items() if key == "image"):
                assert not image.endswith(":latest")
                assert ":" in image.rpartition("/")[2]


def test_profiles_are_distinguished_by_what_they_are_recognised_by() -> None:
    seen: dict[object, str] = {}
    for name, profile in INSTALLED.items():
        assert profile.kubernetes is not None
        key = (profile.kubernetes.recognise, profile.kubernetes.policy)
        assert key not in seen, f"{name} and {seen[key]}"
        seen[key] = name


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/etc/cni/net.d/",
        "/etc/cni/net.d/*",
        "/var/lib/",
        "/var/lib/kubelet/pods",
        "/run/../etc/x",
        "/etc/passwd",
        "/home/a",
        "/var/lib/etcd",
        "/run/containerd/x",
        "/sys/fs/bpf/*",
        "/run/a b",
        "/run/$(id)",
        "/run/`id`",
        "/opt/cni/bin/?*",
    ],
)
def test_nothing_but_what_a_cni_owns_can_be_removed(path: str) -> None:
    with pytest.raises(ValidationError):
        Leaves(files=(path,))


@pytest.mark.parametrize("pattern", ["*", "?*", "[a]*", "a;b*c", "e*"])
def test_no_pattern_matches_everything(pattern: str) -> None:
    with pytest.raises(ValidationError):
        Leaves(devices=(pattern,))


def test_one_of_each_choice() -> None:
    for wrong in (
        {},
        {"chart": None},
        {"reference": {"plugin": "bridge"}, "manifest": {"file": "x.yaml"}},
    ):
        with pytest.raises(ValidationError):
            Step.model_validate(wrong)
    with pytest.raises(ValidationError):
        Wait()
    with pytest.raises(ValidationError, match="sha256"):
        Step.model_validate({"manifest": {"url": "https://example.org/x.yaml"}})
    with pytest.raises(ValidationError, match="host_network"):
        Installation()


@pytest.mark.parametrize("name", OWN)
def test_own_manifests_are_filled_in(access: Access, name: str) -> None:
    objects = manifests.render(access, INSTALLED[name], {}, VARIABLES).objects
    assert "${" not in str(objects)
    assert all(item["metadata"]["labels"][manifests.LABEL] == name for item in objects)
    workload = next(item for item in objects if item["kind"] == "DaemonSet")
    pod = workload["spec"]["template"]["spec"]
    assert pod["hostNetwork"]
    volumes = {volume["name"] for volume in pod["volumes"]}
    for container in pod["containers"] + pod.get("initContainers", []):
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes


@pytest.mark.parametrize("name", OWN)
def test_what_an_own_manifest_installs_is_recognised_as_its_profile(
    access: Access, name: str
) -> None:
    objects = manifests.render(access, INSTALLED[name], {}, VARIABLES).objects
    for item in objects:
        if "stringData" in item:  # as the API server keeps it
            item["data"] = item.pop("stringData")
    assert recognise.current(Cluster([*objects, node("n")])).name == name  # type: ignore[arg-type]


def test_weave_is_encrypted_with_a_new_password_each_time_and_only_when_asked(
    access: Access,
) -> None:
    def passwords(name: str) -> list[str]:
        secrets = [
            item
            for item in manifests.render(access, INSTALLED[name], {}, VARIABLES).objects
            if item["kind"] == "Secret"
        ]
        return [secret["stringData"].get("weave-passwd", "") for secret in secrets]

    one, other = passwords("weave-encrypted"), passwords("weave-encrypted")
    assert len(one[0]) == 32
    assert one != other
    assert passwords("weave") == [""]


def test_settings_change_a_manifest_and_unknown_ones_are_refused(access: Access) -> None:
    profile = INSTALLED["kube-router"]
    objects = manifests.render(
        access, profile, {"service_proxy": "true", "image": "example.org/kr:dev"}, VARIABLES
    ).objects
    assert pod_specs.images(objects) == ["example.org/kr:dev"]
    workload = next(item for item in objects if item["kind"] == "DaemonSet")
    assert (
        "--run-service-proxy=true" in workload["spec"]["template"]["spec"]["containers"][0]["args"]
    )
    with pytest.raises(UsageError, match="--set serviceproxy") as error:
        manifests.render(access, profile, {"serviceproxy": "true"}, VARIABLES)
    assert "service_proxy" in error.value.remedy


def test_a_chart_takes_its_own_values_and_an_image_where_the_profile_says_how() -> None:
    manifests.check(
        INSTALLED["cilium"],
        {"debug.enabled": "true", "chart": "/x", "image": "a:b", "image-archive": "/y"},
    )
    manifests.check(
        INSTALLED["calico-wp-vxlan"], {"chart.crd.projectcalico.org.v1": "/x", "version": "v3.31.7"}
    )
    with pytest.raises(UsageError, match="--set image "):
        manifests.check(INSTALLED["calico-wp-vxlan"], {"image": "a:b"})
    with pytest.raises(UsageError, match="--set manifest "):
        manifests.check(INSTALLED["cilium"], {"manifest": "/x"})


def test_users_own_manifest(access: Access, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name:"
        " a}, data: {x: '${pod_cidr}'}}\n"
    )
    found = manifests.render(access, INSTALLED["kindnet"], {"manifest": str(path)}, VARIABLES)
    assert found.objects[0]["data"] == {"x": "10.244.0.0/16"}
    path.write_text("a: b\n")
    with pytest.raises(InputError, match="no object of Kubernetes"):
        manifests.render(access, INSTALLED["kindnet"], {"manifest": str(path)}, VARIABLES)
    path.write_text("a: [\n")
    with pytest.raises(InputError, match="not YAML"):
        manifests.render(access, INSTALLED["kindnet"], {"manifest": str(path)}, VARIABLES)
    with pytest.raises(InputError, match="No such file"):
        manifests.render(
            access, INSTALLED["kindnet"], {"manifest": str(tmp_path / "none.yaml")}, VARIABLES
        )


def test_substitution() -> None:
    known = {"yes": "true", "number": "7", "empty": ""}
    assert variables.substitute(
        {"a": "${yes}", "b": ["${number}", "x${number}"], "c": "${?empty}", "d": "${empty}"}, known
    ) == {"a": True, "b": [7, "x7"], "d": ""}


@pytest.mark.parametrize(
    ("image", "mirrored"),
    [
        ("quay.io/cilium/cilium:v1@sha256:ab", "r.example:5000/m/cilium/cilium:v1@sha256:ab"),
        ("busybox", "r.example:5000/m/busybox"),
        ("library/busybox:1", "r.example:5000/m/library/busybox:1"),
        ("localhost/x:1", "r.example:5000/m/x:1"),
        ("host:80/x:1", "r.example:5000/m/x:1"),
    ],
)
def test_mirror(image: str, mirrored: str) -> None:
    assert pod_specs.mirrored(image, "r.example:5000/m") == mirrored


def test_mirror_and_its_secret_reach_every_container(access: Access) -> None:
    known = {**VARIABLES, "registry": "r.example/m", "pull_secret": "mine/pull"}
    for name in ("kindnet", "weave"):
        objects = manifests.render(access, INSTALLED[name], {}, known).objects
        assert all(image.startswith("r.example/m/") for image in pod_specs.images(objects))
        pod = next(item for item in objects if item["kind"] == "DaemonSet")["spec"]["template"][
            "spec"
        ]
        assert pod["imagePullSecrets"] == [{"name": "pull"}]


def test_archives(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    path.write_bytes(b"x")
    assert manifests.archives({"image-archive": f"{path},{path}"}) == [path, path]
    assert manifests.archives({}) == []
    with pytest.raises(InputError, match="no such image archive"):
        manifests.archives({"image-archive": str(tmp_path / "b.tar")})


def test_a_profile_of_the_lab_alone_says_so(access: Access) -> None:
    lab_only: Profile = builtin()["flannel-off"]
    with pytest.raises(UsageError, match="does not say how to install it"):
        manifests.render(access, lab_only, {}, VARIABLES)


def test_local_chart_that_is_not_there(access: Access) -> None:
    with pytest.raises(InputError, match="no such chart"):
        manifests.render(access, INSTALLED["cilium"], {"chart": os.devnull + "/x"}, VARIABLES)


def test_the_example_of_the_documentation_is_a_profile(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "adding-a-profile.md").read_text()
    path = tmp_path / "antrea.yaml"
    path.write_text(text.partition("```yaml\n")[2].partition("```")[0])
    profile = read_profile(path)
    assert profile.kubernetes is not None
    assert profile.kubernetes.means() == ("helm chart antrea 2.7.0 of https://charts.antrea.io",)
    assert claims(profile) == ("geneve", {4: 50, 6: 50})
