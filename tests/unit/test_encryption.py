"""What encryption costs, as reports say it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from cnibench.analysis.build import analyse
from cnibench.model.metrics import METRICS
from cnibench.model.profile import Profile, builtin
from cnibench.planning.plans import named
from tests.unit._call import call
from tests.unit._runs import edited, synthetic


def known(*labels: str) -> dict[str, dict[str, object]]:
    return {one: builtin()[one].model_dump(mode="json", by_alias=True) for one in labels}


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if "Encryption, " in line]


@pytest.mark.parametrize("order", [1, -1])
def test_a_profile_that_encrypts_stands_beside_the_same_mode_without(
    tmp_path: Path, order: int
) -> None:
    truth = {"flannel": 1.0, "flannel-wireguard": 0.4, "cilium": 1.2}
    truth = dict([*truth.items()][::order])
    run = synthetic(tmp_path, truth, noise=0.01, profiles=known(*truth))
    analysis = analyse([run])
    assert analysis.clear == {"flannel-wireguard": "flannel"}
    said = lines(call(["report", str(run.path), "--format", "md"]).stdout)
    assert len(said) == 2, "tcp-stream and tcp-rr, between nodes only"
    for line in said:
        assert "between nodes" in line
        figures = re.search(r"has (\S+) times \((\S+) to (\S+)\) the", line)
        assert figures
        ratio, low, high = map(float, figures.groups())
        assert 0.38 < low < ratio < high < 0.42
        assert line.split(": ", 1)[1].startswith("flannel-wireguard has")
        assert re.search(r" of flannel(;|$)", line)
        assert re.search(r"cycles per (byte|packet): \S+.*, without encryption \S+", line)


def test_cycles_and_cpu_time_of_a_byte_stand_beside_those_without(tmp_path: Path) -> None:
    """Also where cycles were measured in turns of another length, as in a plan."""

    def of_bytes(line: dict[str, Any]) -> dict[str, Any]:
        if line["window"] == "cpp":
            line |= {"duration": 2.0}
        if line["metric"] == "cycles_per_packet":
            return line | {"metric": "cycles_per_byte", "value": line["value"] / 1000}
        if line["metric"] == "cpu_softirq":
            return line | {"metric": "cpu_per_byte", "unit": METRICS["cpu_per_byte"].unit}
        return line

    truth = {"flannel": 1.0, "flannel-wireguard": 0.4}
    made = synthetic(tmp_path, truth, noise=0.01, profiles=known(*truth), workloads=("tcp-stream",))
    run = edited(made, of_bytes)
    (said,) = lines(call(["report", str(run.path), "--format", "md"]).stdout)
    figures = re.search(
        r"and (\S+) times \(.*\) the CPU time per byte of flannel;"
        r" cycles per byte: (\S+), without encryption (\S+)$",
        said,
    )
    assert figures
    cpu, with_it, without = map(float, figures.groups())
    assert 2.4 < cpu < 2.6
    assert 4.8 < with_it < 5.2
    assert 1.9 < without < 2.1


def test_each_implementation_of_services_is_compared_with_itself(tmp_path: Path) -> None:
    shown = known("flannel", "flannel-wireguard")
    profiles = {
        f"{label}+{mode}": {**profile, "proxy": mode}
        for mode in ("nftables", "ebpf")
        for label, profile in shown.items()
    }
    run = synthetic(tmp_path, dict.fromkeys(profiles, 1.0), profiles=profiles)
    assert analyse([run]).clear == {
        f"flannel-wireguard+{mode}": f"flannel+{mode}" for mode in ("nftables", "ebpf")
    }


def test_without_the_same_mode_in_clear_nothing_is_said(tmp_path: Path) -> None:
    truth = {"cilium": 1.0, "flannel-wireguard": 0.4}
    run = synthetic(tmp_path, truth, profiles=known(*truth))
    assert analyse([run]).clear == {}
    assert not lines(call(["report", str(run.path)]).stdout)


def test_each_profile_that_encrypts_names_the_same_mode_without() -> None:
    def encrypts(one: Profile) -> bool:
        return bool(one.features.encryption) and "offered" not in one.features.encryption

    found = {name: one.clear for name, one in builtin().items() if one.clear}
    assert found.keys() == {name for name, one in builtin().items() if encrypts(one)}
    for name, clear in found.items():
        assert not encrypts(builtin()[clear])
        assert builtin()[clear].cni == builtin()[name].cni


def test_the_plan_measures_each_model_that_encrypts_beside_its_mode_in_clear() -> None:
    planned = set(named("encryption").cni)
    modelled = {name for name, one in builtin().items() if one.clear and one.datapath}
    assert planned == modelled | {builtin()[name].clear for name in modelled}
