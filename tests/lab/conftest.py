"""Every test here runs within a tree of namespaces of its own: nothing that it makes touches the
machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from cnibench.clusters.lab.deployment import LabDeployment
from cnibench.clusters.lab.namespaces import tree
from cnibench.model.profile import Profile, builtin
from cnibench.run.slices.readings.machine import Machine
from cnibench.testbed.cluster import Options

_numbers = count(1)


@pytest.fixture(scope="session", autouse=True)
def tree_of_tests() -> Iterator[None]:
    """The process of the tests in a tree: mount and network namespaces, /run/cnibench."""
    with tree.entered():
        yield


@pytest.fixture(autouse=True)
def no_steal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that takes much of the CPU time from the machine disturbs no sample: what these tests
    do to a sample is to be its only disturbance.
    """
    monkeypatch.setattr("cnibench.run.checks.stalls.STEAL", math.inf)
    monkeypatch.setattr(Machine, "steal", lambda *_: 0.0)


@pytest.fixture
def make_deployment() -> Iterator[Callable[..., LabDeployment]]:
    """``make_deployment(profile or its name, **Options)``; removed after the test."""
    deployments: list[LabDeployment] = []

    def make(profile: Profile | str, **options: Any) -> LabDeployment:
        chosen = builtin()[profile] if isinstance(profile, str) else profile
        deployments.append(LabDeployment(chosen.name, chosen, Options(**options), next(_numbers)))
        return deployments[-1]

    yield make
    for deployment in deployments:
        deployment.remove()
