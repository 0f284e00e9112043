"""What people get when they follow each project's own instructions is recognised for what it is,
and what is near a profile is never called by its name.

The objects are excerpts of the projects' own manifests (golden/cni_manifests, each with its
address); no cluster was asked.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from cnibench.clusters.kubernetes.cni import recognise
from cnibench.clusters.kubernetes.cni.observe import Objects, image
from cnibench.clusters.kubernetes.cni.recognise import Found
from cnibench.model.installation import Fact
from cnibench.model.profile import builtin
from tests.unit._manifests import Cluster, golden, node


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recognise, "_SETTLING", 0.0)  # kubelets are given time to report


def recognised(*objects: dict[str, Any], denied: tuple[str, ...] = ()) -> Found:
    nodes = [] if any(one["kind"] == "Node" for one in objects) else [node("n")]
    cluster = Cluster([*golden("kube-proxy"), *objects, *nodes], denied)
    return recognise.current(cluster)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("manifests", "name", "version"),
    [
        (("calico-operator",), "calico-default", ""),
        (("calico-manifest", "calico-made"), "calico-manifest", "calico/node:v3.32.1"),
        (
            ("kube-router",),
            "kube-router-default",
            "cloudnativelabs/kube-router, an image without a tag",
        ),
        (("weave",), "weave-npc", "weaveworks/weave-kube:latest; the profile follows 2.8.1"),
        (("weave-fork",), "weave-npc", "rajchaudhuri/weave-kube:latest; the profile follows 2.8.1"),
        (("kind",), "kindnetd", "kindest/kindnetd:v20260528-9350166c"),
        (("kindnet",), "kindnet", "networking/kindnet:v1.0.0"),
        (("k3s",), "flannel-k3s", "v1.34.1+k3s1"),
        (("flannel",), "flannel", "flannel-io/flannel:v0.28.9"),
        (("cilium",), "cilium-default", "cilium/cilium:v1.20.2"),
        (("antrea",), "antrea", "antrea/antrea-agent-ubuntu:latest; the profile follows 2.7.0"),
        (("aws-vpc-cni",), "aws-vpc-cni", "amazon-k8s-cni:v1.23.0"),
        (("ovn-kubernetes",), "ovn-kubernetes", "ovn-kubernetes/ovn-kube-ubuntu:master"),
    ],
)
def test_a_default_is_recognised_with_its_version(
    manifests: tuple[str, ...], name: str, version: str
) -> None:
    found = recognised(*golden(*manifests))
    assert found.name == name
    assert found.title == builtin()[name].title + (f" ({version})" if version else "")
    assert found.said.startswith(f"{found.title}, by ")


def _changed(objects: list[dict[str, Any]], kind: str, **changes: Any) -> list[dict[str, Any]]:
    """With other values at paths a__b__0__c of the one object of a kind."""
    found = copy.deepcopy(objects)
    one = next(item for item in found if item["kind"] == kind)
    for path, value in changes.items():
        *way, last = [int(key) if key.isdigit() else key for key in path.split("__")]
        place = one
        for key in way:
            place = place[key]
        place[last] = value
    return found


_CONTAINERS = "spec__template__spec__containers"
NEAR = {
    "Calico by calico-vxlan.yaml": (
        golden("calico-vxlan-manifest", "calico-made"),
        "close to calico-manifest, but CALICO_NETWORKING_BACKEND of the container calico-node of"
        " daemonset/kube-system/calico-node: expected bird, found vxlan",
    ),
    "Calico's manifest, another pool": (
        _changed(golden("calico-manifest", "calico-made"), "IPPool", spec__ipipMode="CrossSubnet"),
        "close to calico-manifest, but spec.ipipMode of"
        " ippool.crd.projectcalico.org/default-ipv4-ippool: expected Always, found CrossSubnet",
    ),
    "Calico's manifest, WireGuard": (
        _changed(
            golden("calico-manifest", "calico-made"),
            "FelixConfiguration",
            spec__wireguardEnabled=True,
        ),
        "spec.wireguardEnabled of felixconfiguration.crd.projectcalico.org/default: expected"
        " false, found true",
    ),
    "Calico's manifest beside a kube-proxy of nftables, which Felix follows": (
        [
            *golden("calico-manifest", "calico-made"),
            *_changed(
                golden("kube-proxy"), "ConfigMap", **{"data__config.conf": "mode: nftables\n"}
            ),
        ],
        "data.config.conf.mode of configmap/kube-system/kube-proxy: expected anything but nftables,"
        " found that",
    ),
    "Calico's operator, eBPF": (
        _changed(
            golden("calico-operator"), "Installation", spec__calicoNetwork__linuxDataplane="BPF"
        ),
        "close to calico-default, but spec.calicoNetwork.linuxDataplane of"
        " installation.operator.tigera.io/default: expected Iptables, found BPF",
    ),
    "Calico's operator, nftables beside a kube-proxy that Felix follows to iptables": (
        _changed(
            golden("calico-operator"),
            "Installation",
            spec__calicoNetwork={
                "linuxDataplane": "Nftables",
                "ipPools": [{"encapsulation": "None"}],
            },
        ),
        "close to calico-nftables, but data.config.conf.mode of configmap/kube-system/kube-proxy:"
        " expected nftables, found none",
    ),
    "Calico's operator, pools that it does not make": (
        _changed(
            golden("calico-operator"),
            "Installation",
            spec__calicoNetwork={"linuxDataplane": "Iptables", "ipPools": []},
        ),
        "close to calico-np-ipip, but spec.calicoNetwork.ipPools.0.encapsulation of"
        " installation.operator.tigera.io/default: expected IPIP, found none",
    ),
    "Calico's policies beside another network (AKS)": (
        _changed(
            golden("calico-operator"),
            "Installation",
            spec={
                "kubernetesProvider": "AKS",
                "cni": {"type": "AzureVNET", "ipam": {"type": "AzureVNET"}},
                "calicoNetwork": {"bgp": "Disabled", "linuxDataplane": "Iptables"},
            },
        ),
        "spec.cni.type of installation.operator.tigera.io/default: expected Calico, found"
        " AzureVNET",
    ),
    "kube-router in place of kube-proxy": (
        golden("kube-router-all-features"),
        "close to kube-router-default, but --run-service-proxy of"
        " daemonset/kube-system/kube-router: expected false, found true",
    ),
    "kindnetd under another image's name": (
        _changed(golden("kind"), "DaemonSet", **{f"{_CONTAINERS}__0__image": "my/network:1"}),
        "close to kindnetd, but the container kindnet-cni of daemonset/kube-system/kindnet:"
        " expected *kindnetd[:@]*, found my/network:1",
    ),
    "flannel with DirectRouting": (
        _changed(
            golden("flannel"),
            "ConfigMap",
            **{"data__net-conf.json": '{"Backend": {"Type": "vxlan", "DirectRouting": true}}'},
        ),
        "close to flannel, but data.net-conf.json.Backend.DirectRouting of"
        " configmap/kube-flannel/kube-flannel-cfg: expected false, found true",
    ),
    "flannel with DirectRouting in other letters, which Go takes for the same": (
        _changed(
            golden("flannel"),
            "ConfigMap",
            **{"data__net-conf.json": '{"Backend": {"Type": "vxlan", "Directrouting": true}}'},
        ),
        "Backend.DirectRouting of configmap/kube-flannel/kube-flannel-cfg: expected false, found"
        " true",
    ),
    "Cilium with netkit": (
        _changed(golden("cilium"), "ConfigMap", **{"data__datapath-mode": "netkit"}),
        "close to cilium-default, but data.datapath-mode of configmap/kube-system/cilium-config:"
        " expected veth, found netkit",
    ),
    "Cilium before 1.14, which has another key": (
        _changed(golden("cilium"), "ConfigMap", data={"tunnel": "disabled"}),
        "data.routing-mode of configmap/kube-system/cilium-config: expected tunnel, found none",
    ),
    "Cilium in kube-proxy's place, with the node's own routing": (
        _changed(
            golden("cilium"),
            "ConfigMap",
            data={
                "routing-mode": "native",
                "kube-proxy-replacement": "true",
                "enable-bpf-masquerade": "true",
                "enable-host-legacy-routing": "true",
            },
        ),
        "close to cilium-kpr, but data.enable-host-legacy-routing of"
        " configmap/kube-system/cilium-config: expected false, found true",
    ),
    "Antrea without tunnels": (
        _changed(
            golden("antrea"),
            "ConfigMap",
            **{"data__antrea-agent.conf": "trafficEncapMode: noEncap\n"},
        ),
        "close to antrea, but data.antrea-agent.conf.trafficEncapMode of"
        " configmap/kube-system/antrea-config: expected encap, found noEncap",
    ),
    "k3s with host-gw": (
        [
            one
            for item in golden("k3s")
            for one in _changed(
                [item],
                "Node",
                **{"metadata__annotations__flannel.alpha.coreos.com/backend-type": "host-gw"},
            )
        ],
        "backend-type of node: expected vxlan, found host-gw",
    ),
    "k3s without its flannel": (
        _changed(
            golden("k3s"),
            "Node",
            **{"metadata__annotations__k3s.io/node-args": '["server","--flannel-backend=none"]'},
        ),
        "k3s.io/node-args of node: expected anything but *flannel-backend*none*, found that",
    ),
}


@pytest.mark.parametrize("case", sorted(NEAR))
def test_what_differs_in_a_fact_is_close_to_a_profile_and_not_it(case: str) -> None:
    objects, words = NEAR[case]
    found = recognised(*objects)
    assert found.name == ""
    assert words in found.said
    assert "in a mode that no profile describes" in found.title


def test_calico_is_of_nftables_where_kube_proxy_is() -> None:
    network = {"linuxDataplane": "Nftables", "ipPools": [{"encapsulation": "None"}]}
    found = recognised(
        *_changed(golden("calico-operator"), "Installation", spec__calicoNetwork=network),
        *_changed(golden("kube-proxy"), "ConfigMap", **{"data__config.conf": "mode: nftables\n"}),
    )
    assert found.name == "calico-nftables"


def test_encryption_of_weave_is_seen_by_a_variable_and_no_password_is_shown() -> None:
    objects = golden("weave")
    assert not any(name.startswith("secret/") for name in _asked(objects))
    password = {"name": "WEAVE_PASSWORD", "value": "hunter2"}
    encrypted = _with_variable(objects, password)
    found = recognised(*encrypted)
    assert found.name == ""
    assert "WEAVE_PASSWORD of the container weave" in found.said
    assert "expected none, found (secret)" in found.said
    assert "hunter2" not in str(found)
    reference = {"secretKeyRef": {"name": "weave-passwd", "key": "weave-passwd"}}
    mounted = _with_variable(objects, {"name": "WEAVE_PASSWORD", "valueFrom": reference})
    meta = {"namespace": "kube-system", "name": "weave-passwd"}
    secret = {"kind": "Secret", "metadata": meta, "data": {"weave-passwd": "aHVudGVyMg=="}}
    found = recognised(*mounted, secret)
    assert "expected none, found (secret)" in found.said
    assert "aHVudGVyMg" not in str(found)
    assert recognised(*mounted).name == "weave-npc", "the Secret that it names is not there"


def _with_variable(objects: list[dict[str, Any]], item: dict[str, Any]) -> list[dict[str, Any]]:
    found = copy.deepcopy(objects)
    found[0]["spec"]["template"]["spec"]["containers"][0]["env"].append(item)
    return found


def _asked(objects: list[dict[str, Any]]) -> list[str]:
    cluster = Cluster([*objects, node("n")])
    recognise.current(cluster)  # type: ignore[arg-type]
    return cluster.asked


def test_what_may_not_be_read_is_not_taken_for_absent() -> None:
    hidden = "configmap/kube-flannel/kube-flannel-cfg"
    found = recognised(*golden("flannel"), denied=(hidden,))
    assert (found.name, found.denied) == ("", True)
    assert found.said == (
        f"flannel (flannel-io/flannel:v0.28.9) in an unknown mode: this user may not read {hidden}"
    )
    every = tuple(
        f"{facts[0].object.partition('.')[0]}/{'/'.join(facts[0].object.split('/')[1:])}"
        if "." in facts[0].object.split("/")[0]
        else facts[0].object
        for profile in builtin().values()
        if profile.kubernetes and (facts := profile.kubernetes.recognise)
    )
    found = recognised(*golden("flannel"), denied=every)
    assert found.denied
    assert found.said.startswith("this user may not read ")
    assert "daemonset/" in found.said


def test_an_unknown_cni_is_named_by_its_daemonsets_and_images() -> None:
    found = recognised(*golden("canal"))
    assert found.name == ""
    assert "kube-system/canal (calico/node:v3.32.1, flannel/flannel:v" in found.said


def test_two_cnis_at_once_are_neither() -> None:
    found = recognised(*golden("aws-vpc-cni", "cilium"))
    assert found.name == ""
    assert found.said == (
        "several CNIs at once: aws-vpc-cni (amazon-k8s-cni:v1.23.0), cilium (cilium/cilium:v1.20.2)"
    )


def test_annotations_that_a_former_flannel_left_do_not_matter_beside_another_cni() -> None:
    found = recognised(*golden("k3s", "cilium"))
    assert found.name == "cilium-default"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("docker.io/kindest/kindnetd:v1", "kindest/kindnetd:v1"),
        ("registry.example:5000/a/b/c:1@sha256:ab", "b/c:1"),
        ("registry.example/c@sha256:ab", "c@sha256:ab"),
        ("localhost/c", "c"),
        ("weaveworks/weave-kube:2.8.1", "weaveworks/weave-kube:2.8.1"),
    ],
)
def test_an_image_is_shown_without_its_registry(name: str, shown: str) -> None:
    assert image({"image": name}) == shown


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"mode": "a"}', "a"),
        ("mode: a\n", "a"),
        ("x: &x a\nmode: *x\n", "absent"),  # an alias is not followed
        ("[" * 600, "absent"),
        ("mode: !!python/object/apply:os.system ['true']", "absent"),
        ("mode:\n", "absent"),
        ("x" * 300_000, "absent"),
    ],
)
def test_text_in_a_configmap(text: str, value: str) -> None:
    meta = {"namespace": "a", "name": "b"}
    cluster = Cluster([{"kind": "ConfigMap", "metadata": meta, "data": {"x": text}}])
    fact = Fact(object="configmap/a/b", at=("data", "x", "mode"), equals="", otherwise="absent")
    assert Objects(cluster).observe(fact).values == (value,)  # type: ignore[arg-type]


def test_options_and_variables_of_one_container() -> None:
    first = {
        "name": "one",
        "args": ["--on", "--mode=c", "--mode=a", "-one-dash", "b"],
        "env": [{"name": "V", "value": "1"}],
    }
    second = {"name": "two", "args": ["--mode=b"], "env": [{"name": "V", "value": "2"}]}
    pod = {"template": {"spec": {"containers": [first, second]}}}
    meta = {"namespace": "a", "name": "b"}
    read = Objects(Cluster([{"kind": "DaemonSet", "metadata": meta, "spec": pod}]))  # type: ignore[arg-type]

    def value(**fact: str) -> tuple[str, ...]:
        return read.observe(Fact(object="daemonset/a/b", equals="", **fact)).values  # type: ignore[arg-type]

    assert value(argument="--on") == ("true",)
    assert value(argument="--one-dash") == ("b",)
    assert value(argument="--mode") == ("a",), "the last one of the first container"
    assert value(argument="--mode", container="two") == ("b",)
    assert value(argument="--none", otherwise="x") == ("x",)
    assert value(variable="V", container="two") == ("2",)
    assert value(container="three", otherwise="none") == ("none",)
