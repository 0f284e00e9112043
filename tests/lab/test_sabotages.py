"""The attestation notices each change of sabotages.yaml and passes clean deployments."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.model.cell import Attestation
from cnibench.model.profile import builtin
from tests.lab._profiles import buildable, lacking
from tests.lab._sabotage import SABOTAGES, model_of, outcomes
from tests.lab.test_datapath_profiles import RUNNABLE
from tests.lab.test_more_datapaths_kernel import FAMILIES

pytestmark = pytest.mark.timeout(900)  # s: some hundred comparisons, on a machine that is busy
Make = Callable[..., LabDeployment]
_ATTESTED = {*RUNNABLE, *FAMILIES, "host", "veth-baseline"}  # by the tests of their datapaths
_LEAST = 4  # sabotages of each model


def failed(found: list[Attestation]) -> set[str]:
    return {item.check for item in found if not item.passed}


def test_each_model_that_runs_here_has_sabotages_of_its_own() -> None:
    tried = Counter(model_of(profile) for profile, all_ in SABOTAGES.items() for _ in all_)
    models = {model_of(name) for name in buildable()}
    assert {model: tried[model] for model in models if tried[model] < _LEAST} == {}
    assert tried.total() >= 60


def test_each_has_a_name_of_its_own_and_what_is_not_compared_a_reason() -> None:
    for profile, all_ in SABOTAGES.items():
        assert len({one.name for one in all_}) == len(all_), profile
        for one in all_:
            assert bool(one.do) != bool(one.python), one
            assert bool(one.reason) == (one.noticed != "comparison"), one


@pytest.mark.parametrize("profile", SABOTAGES)
def test_each_is_noticed_as_the_file_says_and_undone(make_deployment: Make, profile: str) -> None:
    if missing := lacking(profile):
        pytest.skip(f"this kernel lacks {', '.join(missing)}")
    family = builtin()[profile].features.ip[:1]
    found = list(outcomes(lambda: make_deployment(profile, ip=family), profile))
    assert len(found) == len(SABOTAGES[profile])
    assert not [f"{one.name}: {one.wrong}" for one in found if one.wrong]


def test_clean_deployments_raise_no_false_alarm(make_deployment: Make) -> None:
    """Profiles that no other test attests, and those without sabotages: with them, a clean
    deployment is compared before the first and after the last. benchmarks/false_alarms.py makes
    more.
    """
    wrong = []
    for name in buildable():
        if 4 not in builtin()[name].features.ip:
            continue
        checks = [LabDeployment.attest] * (name not in _ATTESTED)
        checks += [LabDeployment.verify] * (name not in SABOTAGES)
        for check in checks:
            deployment = make_deployment(name)
            wrong += [f"{name}: {item}" for item in check(deployment) if not item.passed]
            deployment.remove()
    assert not wrong


@pytest.mark.parametrize(
    "profile", ["flannel", "calico-wp-xsub", "kube-router", "cilium", "calico-ebpf", "swarm-vxlan"]
)
def test_more_pods_and_pods_that_went_are_no_change(make_deployment: Make, profile: str) -> None:
    deployment = make_deployment(profile)
    deployment.pair("inter", 1)
    deployment.add_pods(deployment.b, 2)
    assert not failed(deployment.verify())
    started = deployment.start_pods(deployment.a, 2, at_once=True)
    deployment.remove_pods([one.pod for one in started])
    assert not [item for item in deployment.verify() if not item.passed]
