"""The colours of the steps of a Pod's start."""

from __future__ import annotations

import re
from pathlib import Path

import cnibench.clusters.lab as lab
from cnibench.reports.site.figures import pod_start, specs

CLUSTER = ["scheduled", "sandbox", "ip-allocation", "rest-of-cni-add", "container", "ready"]


def test_a_step_has_its_colour_whatever_else_a_site_shows() -> None:
    all_of_them = pod_start.shades([*CLUSTER, "first-packet"])
    assert len(set(all_of_them.values())) == 7
    for name in CLUSTER:
        assert pod_start.shades([name]) == {name: all_of_them[name]}
        assert pod_start.shades(["a", name, "b"])[name] == all_of_them[name]


def test_steps_that_are_not_listed_share_what_is_left() -> None:
    names = ["first", *CLUSTER, "second", "third"]
    found = pod_start.shades(names)
    assert len(found) == len(set(found.values())) == len(specs.SHADES)
    assert set(names) - set(found) == {"third"}


def test_every_step_of_the_lab_is_listed() -> None:
    text = "".join(path.read_text() for path in Path(lab.__file__).parent.rglob("*.py"))
    steps = set(re.findall(r'yield "([a-z-]+)"', text))
    assert {"link", "address", "routes", "policy"} <= steps
    assert steps <= {name for row in pod_start._STEPS for name in row}
