"""Judging NICs: from what real devices said, and from what two cards are documented to do."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cnibench.model.profile import builtin
from cnibench.offload import rank
from cnibench.offload.nic import Nic
from cnibench.offload.tunnel_support import (
    ORDER,
    TUNNELS,
    Verdict,
    asymmetries,
    judge,
    spread,
    tunnel,
)
from cnibench.offload.verify import Stream, summary
from cnibench.system import ethtool_output
from cnibench.system.ethtool import Feature

GOLDEN = Path(__file__).parents[1] / "golden" / "ethtool"
BASE = {
    name: Feature(True)
    for name in ("tx-checksum-ip-generic", "tx-scatter-gather", "tx-tcp-segmentation")
}
UDP, UDP_CSUM, IPIP = (
    "tx-udp_tnl-segmentation",
    "tx-udp_tnl-csum-segmentation",
    "tx-ipxip4-segmentation",
)
ON, OFF, FIXED = Feature(True), Feature(False), Feature(False, fixed=True)


def real(name: str, *, hardware: bool) -> Nic:
    """A device as ethtool described it on a real machine."""
    about = GOLDEN / f"{name}.i.txt"
    driver = ethtool_output.parse_driver(about.read_text())["driver"] if about.exists() else ""
    return Nic(
        "a",
        name,
        driver=driver,
        hardware=hardware,
        features=ethtool_output.parse_features((GOLDEN / f"{name}.k.txt").read_text()),
    )


def card(node: str = "a", **features: Feature) -> Nic:
    named = {name.replace("__", "-"): feature for name, feature in features.items()}
    return Nic(
        node, "eth0", driver="card", hardware=True, source="netlink", features={**BASE, **named}
    )


def documented(offloads: tuple[str, ...], node: str = "a") -> Nic:
    """A card of qi2021, which says which tunnels it cuts: those bits on, the others fixed off. No
    such card was asked by us.
    """
    bits = {bit.bit: FIXED for bit in TUNNELS if bit.bit}
    return Nic(
        node,
        "eth0",
        driver="card",
        hardware=True,
        features={**BASE, **bits, **{tunnel(name).bit: ON for name in offloads}},
    )


CONNECTX4, X520 = (
    documented(("vxlan", "vxlan-csum")),
    documented(("vxlan", "vxlan-csum", "ipip"), "b"),
)


@pytest.mark.parametrize(
    ("name", "hardware"), [("virtio_net", True), ("veth", False), ("lo", False), ("vxlan", False)]
)
def test_virtual_devices_never_offload(name: str, hardware: bool) -> None:
    nic = real(name, hardware=hardware)
    assert len(nic.features) > 50
    assert {judge(nic, kind).outcome for kind in TUNNELS} == {"software-only"}


def test_a_veth_passes_what_a_virtio_has_cut() -> None:
    assert "pass it whole" in judge(real("veth", hardware=False), tunnel("vxlan")).reason
    assert "cut by the kernel" in judge(real("virtio_net", hardware=True), tunnel("vxlan")).reason


@given(
    st.sampled_from(["veth", "virtio_net", "vmxnet3", "bridge", ""]),
    st.dictionaries(st.sampled_from([UDP, IPIP, *BASE]), st.just(ON)),
)
def test_whatever_a_virtual_device_says(driver: str, features: dict[str, Feature]) -> None:
    nic = Nic(
        "a", "x", driver=driver, hardware=driver in ("virtio_net", "vmxnet3"), features=features
    )
    assert all(judge(nic, kind).outcome == "software-only" for kind in TUNNELS)


@pytest.mark.parametrize(
    ("features", "kind", "outcome", "command"),
    [
        ({UDP: ON}, "vxlan", "offloaded", ""),
        ({UDP: ON}, "geneve", "offloaded", ""),
        ({UDP: ON, UDP_CSUM: FIXED}, "vxlan-csum", "fixed-off", ""),
        ({UDP: OFF}, "vxlan", "available-off", f"ethtool -K eth0 {UDP} on"),
        ({UDP: FIXED}, "vxlan", "fixed-off", ""),
        ({}, "vxlan", "fixed-off", ""),
        ({UDP_CSUM: ON, "tx-gso-partial": ON}, "vxlan6", "partial", ""),
        ({UDP: ON, "tx-gso-partial": ON}, "vxlan", "offloaded", ""),
        (
            {UDP: Feature(False, wanted=True), "tx-scatter-gather": OFF},
            "vxlan",
            "available-off",
            "ethtool -K eth0 tx-scatter-gather on",
        ),
        (
            {UDP: ON, "tx-tcp-segmentation": OFF},
            "vxlan",
            "available-off",
            "ethtool -K eth0 tx-tcp-segmentation on",
        ),
        ({UDP: ON, "tx-tcp-segmentation": FIXED}, "vxlan", "fixed-off", ""),
        (
            {"tx-esp-segmentation": ON, "esp-hw-offload": OFF},
            "esp",
            "partial",
            "ethtool -K eth0 esp-hw-offload on",
        ),
        ({"tx-esp-segmentation": ON, "esp-hw-offload": ON}, "esp", "offloaded", ""),
        ({UDP: ON}, "wireguard", "software-only", ""),
    ],
)
def test_each_outcome(features: dict[str, Feature], kind: str, outcome: str, command: str) -> None:
    verdict = judge(card(**features), tunnel(kind))
    assert (verdict.outcome, verdict.command) == (outcome, command)
    assert verdict.reason


def test_a_nic_that_answers_nothing_is_said_to() -> None:
    verdict = judge(
        Nic("a", "eth0", hardware=True, problem="eth0: Operation not supported"), tunnel("vxlan")
    )
    assert (verdict.outcome, verdict.reason) == ("unknown", "eth0: Operation not supported")
    assert "unknown" in spread(Nic("a", "eth0", hardware=True)).checksum


def test_ports_that_the_device_was_not_told_of() -> None:
    nic = Nic(
        "a",
        "eth0",
        driver="card",
        hardware=True,
        features={**BASE, UDP: ON},
        ports=(("geneve", 6081), ("vxlan", 4789)),
    )
    assert (
        "does not know port 8472 (it knows 4789)"
        in judge(nic, tunnel("vxlan"), [8472, 4789]).reason
    )
    assert "knows port 4789" in judge(nic, tunnel("vxlan"), [4789]).reason


def test_scaling_by_inner_flows_needs_the_ports() -> None:
    words = [
        spread(Nic("a", "eth0", features=BASE, hardware=True, queues=queues, udp_hash=key)).scaling
        for queues, key in ((1, ""), (8, "sd"), (8, "sdfn"), (8, ""), (0, ""))
    ]
    assert all(
        word in text
        for word, text in zip(
            ("one queue", "arrive at one", "spreads inner", "not reported", "unknown"),
            words,
            strict=True,
        )
    )


def test_the_cards_of_the_study_rank_as_it_says() -> None:
    """qi2021: where IP-in-IP is not offloaded VXLAN is to be preferred; native routing before
    both.
    """
    first = {
        one.profile: one.place
        for one in rank.rank(builtin(), [judge(CONNECTX4, kind) for kind in TUNNELS])
    }
    assert first["calico-wp-xsub"] < first["flannel"] < first["calico-wp-ipip"]
    second = {
        one.profile: one.place
        for one in rank.rank(builtin(), [judge(X520, kind) for kind in TUNNELS])
    }
    assert second["calico-wp-xsub"] < second["flannel"] == second["calico-wp-ipip"]
    assert "host" not in first


def test_the_weakest_nic_decides_and_nodes_that_differ_are_named() -> None:
    verdicts = [judge(nic, kind) for nic, kind in itertools.product((CONNECTX4, X520), TUNNELS)]
    (line,) = asymmetries(verdicts)
    assert line == "IP-in-IP (and 6in4) differs between the nodes: a: fixed-off, b: offloaded"
    ranked = {one.profile: one for one in rank.rank(builtin(), verdicts)}
    assert ranked["calico-wp-ipip"].outcome == "fixed-off"


def test_what_can_be_turned_on_is_said_with_the_profile() -> None:
    (flannel,) = rank.rank(
        {"flannel": builtin()["flannel"]},
        [judge(card(**{UDP: ON, UDP_CSUM: OFF}), kind) for kind in TUNNELS],
    )
    assert (flannel.outcome, flannel.commands) == (
        "available-off",
        (f"a: ethtool -K eth0 {UDP_CSUM} on",),
    )


@given(st.lists(st.sampled_from(ORDER), min_size=1, max_size=4))
def test_places_are_in_order(outcomes: list[str]) -> None:
    verdicts = [
        Verdict("a", f"eth{number}", "vxlan-csum", outcome, "")
        for number, outcome in enumerate(outcomes)
    ]  # type: ignore[arg-type]
    ranked = rank.rank(builtin(), verdicts)
    assert [one.place for one in ranked] == sorted(one.place for one in ranked)
    assert next(one for one in ranked if one.profile == "flannel").outcome == max(
        outcomes, key=lambda one: ORDER.index(one)
    )  # type: ignore[arg-type]


def test_what_ethtool_prints_is_read() -> None:
    features = ethtool_output.parse_features(
        (GOLDEN / "virtio_net.k.txt").read_text() + "tx-x: off [requested on]\n"
    )
    assert features["tx-tcp-segmentation"] == Feature(True, False, True)
    assert features[UDP] == FIXED
    assert features["tx-x"] == Feature(False, False, True)
    assert "tcp-segmentation-offload" not in features
    table = (
        "Tunnel information for eth0:\n  UDP port table 0:\n    Size: 4\n    Types: vxlan\n   "
        " Entries (1):\n        port 8472, vxlan\n"
    )
    assert ethtool_output.parse_ports(table) == (("vxlan", 8472),)


@given(st.text(max_size=60))
def test_any_text_is_read(text: str) -> None:
    ethtool_output.parse_features(text)
    ethtool_output.parse_driver(text)
    ethtool_output.parse_ports(text)


@pytest.mark.parametrize(
    ("on", "off", "verdict"),
    [
        ([2.0] * 6, [1.0] * 6, "faster"),
        ([1.0] * 6, [2.0] * 6, "slower"),
        ([1.0, 2.0] * 3, [1.5] * 6, "no-difference-found"),
        ([2.0] * 5, [1.0] * 5, "inconclusive"),
    ],
)
def test_what_a_measurement_says(on: list[float], off: list[float], verdict: str) -> None:
    found = summary(
        UDP,
        {"a": "eth0"},
        [Stream(value, None) for value in on],
        [Stream(value, 1500.0) for value in off],
    )
    assert (found.verdict, found.size_on, found.size_off) == (verdict, None, 1500.0)
