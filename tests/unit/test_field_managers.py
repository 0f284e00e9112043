"""What the programs of the CNIs write to the API is known by the field managers of the profiles,
each with its source.

The objects are those that the programs write by their sources, as an API server names the writer: a
field manager that the program gives, else its User-Agent up to the first '/', which is the name of
the program (client-go), or that of Go's HTTP client where a client is made without any.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from cnibench.clusters.kubernetes.api.kinds import Kind
from cnibench.clusters.kubernetes.removal import node_objects, selection
from cnibench.clusters.kubernetes.removal.inventory import thing
from cnibench.clusters.kubernetes.removal.selection import Known
from cnibench.model.profile import builtin

# By which family of profiles, what a program writes, where, and under which name.
WRITTEN = [
    ("weave", ("v1", "ConfigMap", "configmaps"), "kube-system/weave-net", "kube-peers.weave.works"),
    ("calico", ("apps/v1", "DaemonSet", "daemonsets"), "calico-system/calico-node", "operator"),
    (
        "calico",
        ("crd.projectcalico.org/v1", "IPAMBlock", "ipamblocks"),
        "10-244-0-0-26",
        "Go-http-client",
    ),
]
SOURCED = ("calico", "kube-router", "weave")


def of_family(family: str) -> list[str]:
    """Those that can be installed."""
    return [
        name
        for name, profile in sorted(builtin().items())
        if name.startswith(family) and profile.kubernetes is not None
    ]


@pytest.mark.parametrize(("family", "kind", "name", "writer"), WRITTEN)
def test_what_a_program_writes_is_removed_with_it(
    family: str, kind: tuple[str, str, str], name: str, writer: str
) -> None:
    namespace, _, plain = name.rpartition("/")
    made = thing(
        Kind(*kind, namespaced=bool(namespace)),
        {"name": plain, "namespace": namespace, "uid": "1", "managedFields": [{"manager": writer}]},
    )
    # Applied by us, so that what the operator writes is in a namespace or of a definition of its
    # own.
    ours = [
        thing(
            Kind("v1", "Namespace", "namespaces", False),
            {"name": "calico-system", "uid": "2", "managedFields": [{"manager": "cnibench"}]},
        ),
        thing(
            Kind(
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                "customresourcedefinitions",
                False,
            ),
            {
                "name": "ipamblocks.crd.projectcalico.org",
                "uid": "3",
                "managedFields": [{"manager": "cnibench"}],
            },
        ),
    ]
    for profile in of_family(family):
        about = builtin()[profile].kubernetes
        assert about is not None
        if profile == "calico-manifest" and writer == "operator":
            continue  # it has none
        known = Known(
            {one.identity: one.uid for one in ours},
            profile,
            about.managers,
            bookkeeping=about.bookkeeping,
        )
        found = selection.find(known, [*ours, made])
        assert found.made == [made], profile
        assert not found.foreign


@pytest.mark.parametrize("profile", of_family("calico"))
def test_the_annotations_of_calico_go_from_the_nodes(profile: str) -> None:
    """calico-node updates the nodes' status, and their annotations with it."""
    fields: dict[str, Any] = {
        "f:metadata": {"f:annotations": {"f:projectcalico.org/IPv4Address": {}}}
    }
    meta = {
        "managedFields": [
            {"manager": "calico-node", "subresource": "status", "fieldsV1": fields},
            {
                "manager": "kubelet",
                "fieldsV1": {"f:metadata": {"f:annotations": {"f:alpha.kubernetes.io/x": {}}}},
            },
        ]
    }
    about = builtin()[profile].kubernetes
    assert about is not None
    assert node_objects._written(meta, "annotations", about.managers) == {
        "projectcalico.org/IPv4Address"
    }


@pytest.mark.parametrize("profile", [name for family in SOURCED for name in of_family(family)])
def test_each_field_manager_has_its_source_of_the_version_that_is_installed(profile: str) -> None:
    known = builtin()[profile]
    assert known.kubernetes is not None
    cited = {
        match[1]: source.url
        for source in known.sources
        if (match := re.match(r"field manager (\S+): ", source.what))
    }
    assert set(cited) == set(known.kubernetes.managers)
    installed = known.kubernetes.model_dump_json()
    for url in cited.values():
        version = re.search(r"/v(\d+\.\d+\.\d+)/", url)
        assert version is not None, url
        assert version[1] in installed, f"{profile} installs another version than {url} is of"
