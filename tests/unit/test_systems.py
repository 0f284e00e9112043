"""Every system that the three studies name has its row: the profile that stands for it, and whether
it runs, or why not.
"""

from __future__ import annotations

import json

import pytest

from cnibench.cli.commands.environment.profiles import runs_here, systems
from cnibench.clusters.lab.cluster import LabCluster
from cnibench.model.profile import builtin
from cnibench.testbed.cluster import Problem
from cnibench.vm import requirements as vm
from tests.unit._call import call

SYSTEMS = {
    "qi2021": {
        "Flannel",
        "Flannel-off",
        "Flannel host-gw",
        "Flannel UDP",
        "Flannel IP-in-IP",
        "Weave",
        "Weave UDP",
        "Weave encrypted",
        "Cilium",
        "Cilium native routing",
        "Cilium Geneve",
        "Cilium with IPsec",
        "Kube-router",
        "Kube-router IP-in-IP",
        "Calico-wp-ipip",
        "Calico-np-ipip",
        "Calico-wp-xsub",
        "Calico-np-xsub",
        "Calico VXLAN",
    },
    "bruijn2017": {
        "eBPF (Cilium without overlay, static routes)",
        "Linux bridge with iptables (datapath A)",
        "Host to host",
        "Namespaces with veth pairs and routes",
        "Docker overlay (VXLAN)",
        "Cilium overlay (VXLAN)",
        "XDP",
        "MacVLAN",
    },
    "makowski2018": {
        "EVPN VXLAN",
        "EVPN MPLS",
        "ILA",
        "ILA by eBPF",
        "Docker Swarm overlay",
        "Docker Swarm overlay with filter",
        "Cilium overlay",
    },
}


def test_every_system_of_the_studies_has_one_profile() -> None:
    found = [
        (study, name) for profile in builtin().values() for study, name in profile.studies.items()
    ]
    assert len(found) == len(set(found))
    assert {
        study: {name for other, name in found if other == study} for study in SYSTEMS
    } == SYSTEMS


def test_a_profile_without_a_model_says_why_and_one_with_a_model_does_not() -> None:
    for name, profile in builtin().items():
        assert bool(profile.reason) == (profile.datapath is None), name
        assert not profile.reason.endswith("."), name


def test_the_table_says_where_each_runs_or_why_not() -> None:
    known = builtin()
    here = runs_here(known.values())
    for item in systems(known.values(), here):
        assert item["lab"] in ("host", "vm", "no")
        assert bool(item["reason"]) == (item["lab"] != "host"), item
        assert bool(item["remedy"]) == (item["lab"] != "host"), item
    for name, profile in known.items():
        if profile.datapath is None:
            assert here[name]["lab"] == "no"
            assert profile.reason in here[name]["reason"]


def test_what_needs_a_vm_runs_nowhere_where_none_can_be_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lacks = Problem(
        "", "VM: the program qemu-system-x86_64", "sudo apt-get install qemu-system-x86"
    )
    kernel = Problem("ila", "CONFIG_IPV6_ILA", "use --kernel vm", kind="kernel")
    monkeypatch.setattr(LabCluster, "check", lambda self, profile, options: [kernel])
    ila = builtin()["ila"]
    monkeypatch.setattr(vm, "problems", lambda: [])
    assert runs_here([ila])["ila"] == {
        "lab": "vm",
        "reason": "CONFIG_IPV6_ILA",
        "remedy": "use --kernel vm",
    }
    monkeypatch.setattr(vm, "problems", lambda: [lacks])
    assert runs_here([ila])["ila"] == {
        "lab": "no",
        "reason": f"CONFIG_IPV6_ILA; {lacks.lacks}",
        "remedy": f"use --kernel vm; {lacks.remedy}",
    }


def test_it_is_printed_and_given_as_json() -> None:
    printed = call(["profiles"])
    assert printed.exit_code == 0
    assert "Systems of the studies" in printed.stdout
    told = json.loads(call(["profiles", "--json"]).stdout)
    assert {(item["study"], item["system"]) for item in told["systems"]} == {
        (s, n) for s, names in SYSTEMS.items() for n in names
    }
