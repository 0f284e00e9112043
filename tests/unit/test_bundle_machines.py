"""What a bundle says about its machines must be possible, and whatever machines do say is accepted:
real ones that a simpler rule would refuse, too. All hashes and figures fit.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cnibench.reports.bundle import machines, nics
from tests.unit._bundles import GOLDEN, document, parts, put, rechained, refusal

FACTS: dict[str, Any] = {
    "kernel": "6.1.0-18-amd64",
    "architecture": "x86_64",
    "cpu_model": "AMD EPYC 7543 32-Core Processor",
    "cpus": 64,
    "cpus_online": 64,
    "memory": 131_072_000 * 1024,
    "virtualisation": "",
    "clocksource": "tsc",
    "smt": True,
    "steal": 0.0,
    "turbo": "/sys/devices/system/cpu/cpufreq/boost",
    "python": "3.11.2",
}
ARM = {"architecture": "aarch64", "kernel": "6.1.0-18-arm64", "cpu_model": "aarch64"}
ARM |= {"clocksource": "arch_sys_counter"}
INTEL = {"cpu_model": "Intel(R) Xeon(R) CPU E5-2630 v4 @ 2.20GHz", "turbo": ""}
CREATED = datetime(2026, 6, 1, tzinfo=UTC)


def device(driver: str, speed: object = "") -> dict[str, Any]:
    return {"nodes": {"a": {"device": {"driver": driver, "speed": speed}}}}


def virtual(driver: str) -> dict[str, Any]:
    return {"offload": {"nics": [{"driver": driver}]}}


IMPOSSIBLE: dict[str, tuple[dict[str, Any], str]] = {
    "more CPUs than are online": ({"cpus": 65}, "may use more CPUs than are online"),
    "two threads of one CPU": ({"cpus": 1, "cpus_online": 1}, "SMT is active"),
    "more CPUs than sockets hold": (
        {"cpus_online": 512},
        "no virtual machine, and it has 512 CPUs",
    ),
    "memory of a toy": ({"memory": 4096}, "which no machine has"),
    "memory of a data centre": ({"memory": 2**50}, "which no machine has"),
    "memory to the byte": ({"memory": 64_000_000_001}, "whole KiB"),
    "two vendors": ({"cpu_model": "AMD Intel Xeon"}, "two vendors"),
    "a name too long": ({"cpu_model": "AMD EPYC " * 6}, "no name that an x86_64"),
    "a name that is no text": ({"cpu_model": "AMD\u202eCPYE"}, "no name that an x86_64"),
    "another clock": (INTEL | {"tsc_hz": 5.6e9}, "has no clock of 5.6 GHz"),
    "a driver of Intel's": (
        {"turbo": "/sys/devices/system/cpu/intel_pstate/no_turbo"},
        "no driver of Intel's",
    ),
    "another architecture's vendor": (
        {"cpu_model": "Neoverse-N1"},
        "does not have the architecture",
    ),
    "another architecture's kernel": ({"kernel": "6.1.0-18-arm64"}, "not for the architecture"),
    "another architecture's clock": ({"clocksource": "arch_sys_counter"}, "does not have"),
    "arm64 with a TSC": (ARM | {"clocksource": "tsc"}, "does not have"),
    "a kernel to come": ({"kernel": "9.1.0"}, "did not exist on 2026-06-01"),
    "a kernel before its netkit": ({"kernel_features": {"netkit": True}}, "has no netkit"),
    "a node's kernel": ({"nodes": {"a": {"kernelVersion": "fast"}}}, "node a: .* no version"),
    "a clock of KVM": ({"clocksource": "kvm-clock"}, "no virtual machine, and its clock"),
    "a clock of Hyper-V": (
        {"clocksource": "hyperv_clocksource_tsc_page"},
        "no virtual machine, and its clock",
    ),
    "stolen time": ({"steal": 0.01}, "no virtual machine, and a hypervisor"),
    "a CPU of QEMU": ({"cpu_model": "QEMU Virtual CPU version 2.5+"}, "no virtual machine, and"),
    "a NIC of virtual machines": (virtual("vmxnet3"), "no virtual machine, and its NIC"),
    "an old Python": ({"python": "3.9.2"}, "Python '3.9.2' cannot run cnibench"),
    "a card faster than its kind": (device("e1000e", "100000"), "no link of 100 Gbit/s"),
    "an emulated processor": ({"accelerator": "tcg", "testbed": "lab"}, "was emulated"),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_what_is_impossible_is_named_once(name: str) -> None:
    change, words = IMPOSSIBLE[name]
    (found,) = machines.contradictions(FACTS | change, CREATED)
    assert re.search(words, found)


POSSIBLE: dict[str, dict[str, Any]] = {
    "as it is": {},
    "two CPUs of many, which a container may use": {"cpus": 2},
    "no facts at all": dict.fromkeys(FACTS),
    "Intel, with its clock": INTEL | {"tsc_hz": 2.194e9},
    "Red Hat's netkit": {"kernel": "5.14.0-570.el9.x86_64", "kernel_features": {"netkit": True}},
    "a release candidate": {"kernel": "7.1.0-rc6+"},
    "a bare machine of AWS": virtual("ena"),
    "a virtual machine": virtual("virtio_net") | {"virtualisation": "QEMU", "steal": 0.1},
    "a virtual machine with many CPUs": {"virtualisation": "QEMU", "cpus_online": 512},
    # cnibench sees no hypervisor there
    "a virtual machine with arm64": ARM | virtual("virtio_net") | {"steal": 0.1},
    "a fast card": device("mlx5_core", "100000"),
    "a card without a link": device("igb", "-1"),
    "another tool's text": {"imported": "knb", "cpu_model": "Intel Xeon, " * 5, "memory": 7},
}


@pytest.mark.parametrize("name", POSSIBLE)
def test_what_machines_say_is_accepted(name: str) -> None:
    facts = FACTS | POSSIBLE[name]
    assert list(machines.contradictions(facts, CREATED)) == []
    assert list(machines.contradictions(facts, None)) == []


def test_every_kernel_existed_at_its_release() -> None:
    released = {
        "4.19.0": datetime(2018, 10, 22, tzinfo=UTC),
        "5.10.0": datetime(2020, 12, 13, tzinfo=UTC),
        "6.1.0": datetime(2022, 12, 11, tzinfo=UTC),
        "6.12.0": datetime(2024, 11, 17, tzinfo=UTC),
        "6.18.0": datetime(2025, 11, 30, tzinfo=UTC),
    }
    for kernel, day in released.items():
        facts = FACTS | {"kernel": kernel}
        assert list(machines.contradictions(facts, day)) == []
        (found,) = machines.contradictions(facts, day.replace(year=day.year - 1))
        assert "did not exist" in found


def test_the_speed_of_a_link_follows_from_its_driver() -> None:
    assert nics.link_speed(device("e1000e")) == 1e9
    assert nics.link_speed(device("ixgbe", 10000)) == 1e10
    assert nics.link_speed(device("mlx5_core", "unknown")) == math.inf
    assert nics.link_speed({}) == math.inf


def test_a_bundle_is_refused_for_it(tmp_path: Path) -> None:
    files = parts(GOLDEN.read_bytes())
    assert refusal(tmp_path, put(files)) == ""
    changed = rechained(document(files, "env.json", memory=10**18))
    assert "which no machine has" in refusal(tmp_path, put(changed))
