"""Our images: the same bytes each time, with a bill of materials."""

from __future__ import annotations

import json
import os
import subprocess

import pytest
from _kind_runs import engine
from kind import images as parts

from cnibench.clusters.kubernetes import images

pytestmark = pytest.mark.timeout(600)


@pytest.mark.usefixtures("kind_parts")
def test_two_builds_give_the_same_bytes() -> None:
    """Of the stage that both images begin with, each without any layer of the other."""
    made = images.Recipe(base=parts.BASE, snapshot="", fresh=True)
    podman = images.Engine("podman")
    names = [f"localhost/cnibench-e2e/twice:{which}-{os.getpid()}" for which in "ab"]
    try:
        for name in names:
            podman.build("common", name, made)
        one, other = map(podman.id, names)
    finally:
        for name in names:
            subprocess.run(["podman", "rmi", name], capture_output=True, check=False)
    assert one == other


@pytest.mark.usefixtures("kind_parts")
def test_an_image_lists_its_packages() -> None:
    script = "cat /usr/share/cnibench/sbom.spdx.json; echo; dpkg-query --show"
    argv = ("podman", "run", "--rm", "--network=none", images.name("workload"), "sh", "-c", script)
    text = engine(*argv)
    bill, end = json.JSONDecoder().raw_decode(text)
    listed = {tuple(line.split("\t")) for line in text[end:].split("\n") if line}
    names = {name.partition(":")[0] for name, _ in listed}
    assert {"netperf", "iperf3", "apache2-utils", "python3"} < names
    assert {(one["name"], one["versionInfo"]) for one in bill["packages"]} == {
        (name.partition(":")[0], version) for name, version in listed
    }
