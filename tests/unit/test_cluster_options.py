"""Options that only some kinds of cluster take, as a run directory stores them."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest

from cnibench.cli.options.cluster import EVERY
from cnibench.errors import InputError, UsageError
from cnibench.registry import providers
from cnibench.testbed.cluster import Options
from cnibench.testbed.cluster_options import ClusterOptions, stored

VALUES = {"max_rate": "1G", "patience": "1m", "pod_resources": "cpu=1,memory=1Gi"}
GIVEN = ClusterOptions(
    kubeconfig="/tmp/config", toleration=("a=b:NoSchedule", "all"), allow_load=True, kind_nodes=3
)

EACH: dict[str, Any] = {
    one.name: ("all",)
    if one.type.startswith("tuple")
    else {"bool": True, "int | None": 3}.get(one.type, VALUES.get(one.name, "x"))
    for one in fields(ClusterOptions)
}  # one value of each


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


@pytest.mark.parametrize("name", sorted(providers("clusters")))
def test_a_kind_of_cluster_refuses_the_options_that_it_does_not_take(name: str) -> None:
    kind = providers("clusters")[name]
    kind = kind.at(f"{name}://one,ssh://two") if hasattr(kind, "at") else kind
    for option, value in EACH.items():
        asked = Options(ip=(4,), cluster=ClusterOptions(**{option: value}))
        if option in kind.takes:
            kind(asked)
        else:
            with pytest.raises(UsageError, match=f"--cluster {name} does not accept --"):
                kind(asked)
    if "keep" not in kind.takes:
        with pytest.raises(UsageError, match=f"--cluster {name} does not accept --keep"):
            kind(Options(ip=(4,), keep=True))


def test_each_option_is_taken_by_some_kind_and_only_options_are() -> None:
    taken = set().union(*(kind.takes for kind in providers("clusters").values()))
    assert taken == {one.name for one in fields(ClusterOptions)} | {"keep"}


def test_an_option_is_named_as_it_is_typed() -> None:
    with pytest.raises(UsageError, match=r"does not accept --as$"):
        providers("clusters")["lab"](Options(cluster=ClusterOptions(as_user="x")))
