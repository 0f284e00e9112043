"""What encryption costs, as reports say it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cnibench.analysis.build import analyse
from cnibench.model.profile import Profile, builtin
from cnibench.planning.plans import named
from tests.unit._call import call
from tests.unit._runs import synthetic


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
