"""The lab without a lab: offload models, options of builders, what a kernel lacks."""

from __future__ import annotations

import subprocess
import sys

import pytest

from cnibench.cli.measurement.packages import install_command, lacking
from cnibench.clusters.lab import kernel
from cnibench.clusters.lab.builders.base import builder_of, builders
from cnibench.clusters.lab.cluster import LabCluster
from cnibench.clusters.lab.namespaces import links, netlink, wire
from cnibench.errors import ClusterError, InputError, UsageError
from cnibench.model.profile import Datapath, builtin
from cnibench.testbed.cluster import Options


@pytest.mark.parametrize(
    ("model", "whole"),
    [
        ("none", set()),
        ("plain", {"none"}),
        ("vxlan", {"none", "vxlan", "geneve"}),
        ("all", {"none", "vxlan", "geneve", "ipip"}),
    ],
)
def test_what_each_offload_model_passes_whole(model: str, whole: set[str]) -> None:
    on = wire.bits(model)
    for family in (4, 6):
        passed = {
            kind
            for kind in ("none", "vxlan", "geneve", "ipip", "udp", "wireguard")
            if wire.passes_whole(on, kind, family)
        }
        assert passed == whole


def test_an_unknown_offload_model_names_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        LabCluster(Options(wire_offload="magic"))
    assert "none, plain, vxlan, all" in caught.value.remedy


def test_every_profile_with_a_datapath_has_a_builder_that_takes_its_options() -> None:
    for profile in builtin().values():
        if profile.datapath is not None:
            builder, options = builder_of(profile)
            assert isinstance(options, builder.Options)
            assert set(builder.needs) | set(profile.datapath.needs) <= set(kernel.FEATURES)
    assert {"host", "veth"} <= set(builders())


def test_a_wrong_option_or_model_is_explained() -> None:
    plain = builtin()["veth-baseline"]
    with pytest.raises(InputError, match=r"datapath.options: colour"):
        builder_of(
            plain.model_copy(update={"datapath": Datapath(model="veth", options={"colour": 1})})
        )
    with pytest.raises(InputError, match=r"datapath.options: colour"):
        LabCluster(Options(settings={plain.name: {"colour": "red"}})).check(plain)
    with pytest.raises(InputError, match="there is no 'vethh'") as caught:
        builder_of(plain.model_copy(update={"datapath": Datapath(model="vethh")}))
    assert "veth" in caught.value.remedy
    with pytest.raises(InputError, match="no datapath model"):
        builder_of(plain.model_copy(update={"datapath": None}))


def test_what_the_kernel_lacks_is_named_with_its_option() -> None:
    cluster = LabCluster(Options())
    found = kernel.found()
    assert set(found) == set(kernel.FEATURES)
    plain = builtin()["veth-baseline"]
    for need, there in found.items():
        problems = cluster.check(
            plain.model_copy(update={"datapath": Datapath(model="veth", needs=(need,))})
        )
        assert bool(problems) != there
        if problems:
            assert kernel.FEATURES[need].option.split()[0] in problems[0].lacks + problems[0].remedy
            assert problems[0].remedy
    with pytest.raises(ClusterError, match="'warp'"):
        cluster.check(
            plain.model_copy(update={"datapath": Datapath(model="veth", needs=("warp",))})
        )


def test_a_program_that_is_not_installed_is_no_option_that_the_kernel_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = LabCluster(Options())
    kernel.found()
    monkeypatch.setattr(kernel, "_found", dict.fromkeys(kernel.FEATURES, False))
    monkeypatch.setenv("PATH", "/nonexistent")
    plain = builtin()["veth-baseline"]
    for need, program, package in (
        ("iptables", "iptables-restore", "iptables"),
        ("nftables", "nft", "nftables"),
        ("ipset", "ipset", "ipset"),
    ):
        (problem,) = cluster.check(
            plain.model_copy(update={"datapath": Datapath(model="veth", needs=(need,))})
        )
        assert problem.lacks.startswith(f"the program {program} (")
        assert problem.remedy == f"sudo apt-get install {package}"
        assert problem.kind != "kernel"  # a VM mends nothing
        assert package in install_command([*lacking(LabCluster.tools), program])


def test_families_and_mtu_are_checked_before_anything_is_made() -> None:
    plain = builtin()["veth-baseline"]
    only4 = plain.model_copy(update={"features": plain.features.model_copy(update={"ip": (4,)})})
    assert [item.lacks for item in LabCluster(Options(ip=(4, 6))).check(only4)] == [
        "IPv6 in this mode"
    ]
    tunnel = plain.model_copy(update={"datapath": Datapath(model="veth", overhead=50)})
    assert LabCluster(Options(ip=(6,), mtu=1329)).check(tunnel)[0].remedy == "--mtu 1330 or more"
    assert LabCluster(Options(ip=(6,), mtu=1330)).check(tunnel) == []


def test_mac_addresses_are_local_and_differ() -> None:
    macs = {links.mac(1, node, pod) for node in (0, 1) for pod in range(250)}
    assert len(macs) == 500
    assert all(int(mac[:2], 16) & 3 == 2 for mac in macs)


def test_attributes_are_padded_and_measured() -> None:
    assert netlink.attribute(4, 7) == b"\x08\x00\x04\x00\x07\x00\x00\x00"
    assert netlink.attribute(3, "abc") == b"\x08\x00\x03\x00abc\x00"
    assert (
        netlink.attribute(1, b"\x01\x02\x03\x04\x05\x06")
        == b"\x0a\x00\x01\x00\x01\x02\x03\x04\x05\x06\x00\x00"
    )


def test_no_more_is_imported_than_one_cluster_and_the_core_of_pyroute2() -> None:
    program = (
        "import sys\nfrom cnibench.registry import provider\nassert provider('clusters',"
        " 'lab').kind == 'lab'\nfrom cnibench.clusters.lab.namespaces.iproute import iproute\nkind"
        " = iproute()\nfrom pyroute2 import IPRoute\nassert IPRoute is kind is"
        " iproute()\nprint(*(name for name in ('cnibench.clusters.kind', 'pyroute2.ndb.main',"
        " 'pyroute2.conntrack') if name in sys.modules))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
