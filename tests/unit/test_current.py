"""What ``--cni current`` stands for: resolved, attested, named by the report, and, where it is
replaced, rendered as --set says.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cnibench.analysis import analyse
from cnibench.cli.measurement.request import cluster_of, prepare
from cnibench.clusters.existing.cluster import ExistingCluster
from cnibench.clusters.existing.deployment import ExistingDeployment
from cnibench.clusters.existing.safeguards import check_removable
from cnibench.clusters.kubernetes.cni import suitability
from cnibench.clusters.kubernetes.cni.attest import makes_claims, one_subnet
from cnibench.clusters.kubernetes.cni.recognise import Found
from cnibench.clusters.kubernetes.deployment import KubernetesDeployment
from cnibench.errors import ClusterError, UsageError
from cnibench.model.cell import Attestation
from cnibench.model.profile import CURRENT, Profile, builtin
from cnibench.planning.plan import Plan
from cnibench.reports.brief import PROVIDER as BRIEF
from cnibench.reports.json_ import PROVIDER as JSON
from cnibench.reports.text import PROVIDER as TEXT
from cnibench.testbed.cluster import Options
from tests.unit._runs import synthetic

ROOT = Path(__file__).parents[2]


def cluster(present: Found, settings: Mapping[str, Mapping[str, str]] | None = None) -> Any:
    made = ExistingCluster(Options(settings=settings or {}))
    made.__dict__.update(access=None, nodes=[], present=present)
    return made


def test_what_is_recognised_is_named_with_its_version() -> None:
    made = cluster(Found("kindnetd", "x", "kindnetd, kind's own (kindest/kindnetd:v1)"))
    found = made.resolve({"current": CURRENT, "flannel": builtin()["flannel"]})
    assert found["current"].name == "kindnetd"
    assert found["current"].title == "kindnetd, kind's own (kindest/kindnetd:v1)"
    assert found["flannel"] == builtin()["flannel"]


def test_what_is_not_recognised_is_named_by_what_was_seen() -> None:
    found = cluster(Found("", "close to x, but y")).resolve({"current": CURRENT})["current"]
    assert (found.name, found.title) == ("current", "not recognised: close to x, but y")


@pytest.mark.parametrize("name", ["flannel-k3s", "aws-vpc-cni", "ovn-kubernetes"])
def test_what_others_install_is_measured_where_it_runs_and_nowhere_else(name: str) -> None:
    profile = builtin()[name]
    (problem,) = suitability.problems(profile, Options())
    assert "which alone installs it" in problem.lacks
    assert "--cni current" in problem.remedy
    assert cluster(Found("flannel", "")).check(profile)
    there = cluster(Found(name, "x", "y"))
    assert there.check(profile) == []
    assert there.check(there.resolve({"current": CURRENT})["current"]) == []
    with pytest.raises(ClusterError, match="does not know how to remove it"):
        check_removable(name, "that")


def test_a_cluster_without_helm_measures_what_a_chart_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    there = cluster(Found("cilium", "x", "y"))
    assert there.check(builtin()["cilium"])
    assert there.check(there.resolve({"current": CURRENT})["current"]) == []


def test_settings_of_the_cni_that_goes() -> None:
    settings = {
        "": {"version": "1", "pod_cidr": "10.0.0.0/8"},
        "cilium": {"chart": "./mine"},
        "current": {"version": "2"},
    }
    made = cluster(Found("cilium", "x"), settings)
    assert made._settings_of_removed("cilium") == {"chart": "./mine", "version": "2"}
    made._asked = {"cilium"}
    del settings["current"]
    assert made._settings_of_removed("cilium") == {"version": "1", "chart": "./mine"}
    made._asked = {"flannel"}
    assert made._settings_of_removed("kube-router") == {}, "they are for what is installed"


def test_before_anything_starts_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    there = cluster(Found("flannel", "x", "Flannel, VXLAN (flannel:v1)"))
    chosen = [SimpleNamespace(name="a"), SimpleNamespace(name="b")]
    there.__dict__.update(access=SimpleNamespace(context="c"), chosen=chosen, _strangers=[])
    monkeypatch.setattr("cnibench.clusters.existing.present.cleaning.record", lambda _: None)
    lines = there.preview(there.resolve({"here": CURRENT}), 1.0, 0.0)
    assert lines[0] == "here: Flannel, VXLAN (flannel:v1)"
    assert any("nothing outside our own namespace is changed" in line for line in lines)


@pytest.mark.parametrize(
    ("kind", "label", "said"),
    [
        ("existing", "current", "supports at most 50 pairs"),  # which is looked at after the labels
        ("existing", "nobody", "names no profile of this run"),
        ("lab", "current", "names no profile of this run"),
    ],
)
def test_a_setting_may_be_for_what_the_cluster_has(kind: str, label: str, said: str) -> None:
    settings = {label: {"version": "1"}}
    plan = Plan(title="x", cni=("flannel",), cluster=kind, settings=settings, pairs=1000)
    with pytest.raises(UsageError, match=said):
        prepare(plan, cluster_of(plan))


class _Deployment(ExistingDeployment):
    """One whose checks are not made."""

    def __init__(self, profile: Profile, said: str) -> None:
        self.profile, self.said, self.options = profile, said, Options()

    def nodes(self) -> Any:
        return ()

    def attestation(self, check: str, expected: str, observed: str, passed: bool, *_: Any) -> Any:
        return Attestation(
            profile=self.profile.name,
            label="current",
            check=check,
            expected=expected,
            observed=observed,
            passed=passed,
        )

    def reached(self) -> Any:
        return ["reached"]

    def with_kernel_state(self, checks: Any) -> Any:
        return checks()


def checks(profile: Profile, said: str, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    monkeypatch.setattr(KubernetesDeployment, "attest", lambda _: ["claims"])
    first, *others = _Deployment(profile, said).attest()
    return [first if isinstance(first, str) else (first.expected, first.observed), *others]


def test_only_claims_are_attested(monkeypatch: pytest.MonkeyPatch) -> None:
    assert checks(builtin()["flannel"], "", monkeypatch) == ["claims"]
    assert checks(builtin()["flannel"], "by x", monkeypatch) == [("flannel", "by x"), "claims"]
    assert checks(builtin()["aws-vpc-cni"], "by x", monkeypatch) == [
        ("aws-vpc-cni", "by x"),
        "reached",
    ]
    assert checks(CURRENT, "close to x", monkeypatch) == [("nothing", "close to x"), "reached"]
    assert makes_claims(builtin()["flannel-k3s"])


@pytest.mark.parametrize(
    ("other", "same"), [("192.0.2.130", False), ("192.0.2.5", True), ("2001:db8::1", False)]
)
def test_nodes_of_one_subnet(other: str, same: bool) -> None:
    told = [{"addr_info": [{"local": "192.0.2.1", "prefixlen": 25}]}]

    def run(argv: list[str], **_: Any) -> Any:
        assert argv[-1] == "eth0"
        return SimpleNamespace(stdout=json.dumps(told))

    first: Any = SimpleNamespace(device="eth0", addresses={4: "192.0.2.1"}, run=run)
    second: Any = SimpleNamespace(addresses={4: other})
    assert one_subnet(first, second, 4) == same


def test_the_report_says_what_current_was(tmp_path: Path) -> None:
    titles = {"here": "Flannel, VXLAN (flannel:v1)", "flannel": "Flannel, VXLAN"}
    profiles = {
        label: {"schema": 1, "name": "flannel", "title": title, "cni": "flannel"}
        for label, title in titles.items()
    }
    reader = synthetic(
        tmp_path,
        dict.fromkeys(titles, 1.0),
        profiles=profiles,
        plan={"cni": ["flannel", "here=current"]},
    )
    analysis = analyse([reader])
    assert analysis.current == {"here": "Flannel, VXLAN (flannel:v1), profile flannel"}
    for report in (TEXT, BRIEF):
        assert "here: Flannel, VXLAN (flannel:v1), profile flannel" in report.render(analysis)
    assert json.loads(JSON.render(analysis))["current"] == analysis.current


@pytest.mark.parametrize(("word", "status"), [("--help", 0), ("--unknown", 1)])
def test_the_cluster_of_the_tests_explains_itself_and_builds_nothing(
    word: str, status: int, tmp_path: Path
) -> None:
    argv = [sys.executable, str(ROOT / "tests" / "e2e" / "kind"), word]
    environment = {"PYTHONPATH": str(ROOT / "src"), "CNIBENCH_E2E_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == status
    assert "usage: python tests/e2e/kind" in done.stdout + done.stderr
    assert not (tmp_path / "cache").exists()
