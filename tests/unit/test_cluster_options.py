"""Options that only some kinds of cluster take, as a run directory stores them."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest

from cnibench.cli._cluster_options import EVERY
from cnibench.errors import InputError
from cnibench.testbed.cluster_options import ClusterOptions, stored

GIVEN = ClusterOptions(
    kubeconfig="/tmp/config", toleration=("a=b:NoSchedule", "all"), allow_load=True, kind_nodes=3
)


def test_what_was_given_is_stored_and_read_again() -> None:
    text = json.dumps(GIVEN.given())
    assert json.loads(text) == {
        "kubeconfig": "/tmp/config",
        "toleration": ["a=b:NoSchedule", "all"],
        "allow_load": True,
        "kind_nodes": 3,
    }
    assert stored(json.loads(text)) == GIVEN
    assert stored(ClusterOptions().given()) == ClusterOptions()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"kubeconfig": "x", "colour": "red"}, "an option that this version does not know: colour"),
        ({"kind_nodes": "many"}, "kind_nodes"),
        ({"toleration": "all"}, "toleration"),
        ({"context": {"name": "x"}}, "context"),
    ],
)
def test_what_is_none_of_them_is_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        stored(values)


def test_the_command_line_has_each_of_them() -> None:
    def command(**_: object) -> None: ...

    for option in EVERY:
        option(command)
    named = {one.name for one in command.__click_params__}  # type: ignore[attr-defined]
    assert named == {one.name for one in fields(ClusterOptions)}
