"""Every test here runs within a tree of namespaces of its own: nothing that it makes touches the machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from cnibench.cluster import Options
from cnibench.clusters.lab import tree
from cnibench.clusters.lab.stand import Stand
from cnibench.profile import Profile, builtin

_numbers = count(1)


@pytest.fixture(scope="session", autouse=True)
def tree_of_tests() -> Iterator[None]:
    """The process of the tests in a tree: mount and network namespaces, /run/cnibench."""
    with tree.entered():
        yield


@pytest.fixture
def make_stand() -> Iterator[Callable[..., Stand]]:
    """Makes stands: ``make_stand(profile or its name, **Options)``; removed after the test."""
    stands: list[Stand] = []

    def make(profile: Profile | str, **options: Any) -> Stand:
        chosen = builtin()[profile] if isinstance(profile, str) else profile
        stands.append(Stand(chosen.name, chosen, Options(**options), next(_numbers)))
        return stands[-1]

    yield make
    for stand in stands:
        stand.remove()
