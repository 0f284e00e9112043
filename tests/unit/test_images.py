"""What our images are built from, how they are named, and what is in them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cnibench.clusters.kubernetes import images
from cnibench.clusters.kubernetes.images import recipe, sbom
from cnibench.errors import InputError, UsageError
from cnibench.system.process import Done

REGISTRY = "registry.example/bench"
DIGEST = f"sha256:{'7' * 64}"
LISTED = (
    "libstdc++6\t14.2.0-19\tamd64\tgcc-14\t14.2.0-19\n"
    "adduser\t3.152\tall\tadduser\t3.152\n"
    "nftables\t1:1.1.3-1\tamd64\tnftables\t1:1.1.3-1\n"
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "cnibench" / "images"


def test_the_base_has_a_digest_and_packages_its_time() -> None:
    text = (recipe.FOLDER / "Containerfile").read_text()
    assert re.search(r"^ARG BASE=docker\.io/library/debian@sha256:[0-9a-f]{64}$", text, re.M)
    assert f"# debian:trixie-{recipe.SNAPSHOT.partition('T')[0]}-slim" in text
    given = images.Recipe.of("", None, "", fresh=False).arguments("workload")
    assert "SOURCE_DATE_EPOCH=1789689600" in given
    assert "SNAPSHOT=20260918T000000Z" in given
    assert any(one.startswith("WORKLOADS=") and "netperf" in one for one in given)


def test_another_base_has_its_own_package_sources() -> None:
    own = images.Recipe.of("debian:13", None, "linux/arm64,linux/arm64", fresh=False)
    assert (own.snapshot, own.platforms) == ("", ("linux/arm64",))
    assert own.epoch == images.Recipe().epoch
    assert "BASE=debian:13" in own.arguments("agent")
    then = images.Recipe.of("debian:13", "20250101T000000Z", "", fresh=False)
    assert then.epoch == 1735689600


@pytest.mark.parametrize(
    ("snapshot", "platform", "said"),
    [("yesterday", "", "no time of"), (None, "windows/amd64", "not known")],
)
def test_wrong_options(snapshot: str | None, platform: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        images.Recipe.of("", snapshot, platform, fresh=False)


def test_pods_name_the_digest_that_was_pushed(cache: Path) -> None:
    name = images.name("agent", REGISTRY)
    assert images.reference("agent", f"{REGISTRY}/") == name
    images.record(name, DIGEST)
    images.record(images.name("workload", "other.example"), DIGEST)
    assert images.reference("agent", f"{REGISTRY}/") == f"{name}@{DIGEST}"
    assert images.reference("workload", REGISTRY) == images.name("workload", REGISTRY)
    assert images.reference("agent") == images.name("agent")
    (cache / "pushed.json").write_text("[]")
    with pytest.raises(InputError, match="is damaged"):
        images.reference("agent", REGISTRY)


def test_docker_tells_the_digest_that_was_pushed(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what docker's reference says that it prints: no docker is installed where tests run."""

    def run(argv: list[str], **more: Any) -> Done:
        inspects = argv[:3] == ["docker", "image", "inspect"]
        digests = f"other.example/agent@{DIGEST[:-1]}8\n{REGISTRY}/agent@{DIGEST}\n"
        return Done(tuple(argv), 0, digests * inspects, "", 0.0)

    monkeypatch.setattr("cnibench.system.process.run", run)
    assert images.Engine("docker").push(f"{REGISTRY}/agent:1") == DIGEST


def test_and_the_digest_that_was_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    released = tmp_path / "published.json"
    monkeypatch.setattr(images, "_RELEASED", released)
    name = images.name("agent", REGISTRY)
    released.write_text(json.dumps({name: DIGEST}))
    assert images.reference("agent", REGISTRY) == f"{name}@{DIGEST}"


def test_the_bill_of_materials_is_sorted_and_has_no_clock() -> None:
    made = sbom.document("workload", LISTED, "13", 1789689600)
    again = sbom.document("workload", LISTED, "13", 1789689600)
    assert json.dumps(made) == json.dumps(again)
    assert made["creationInfo"]["created"] == "2026-09-18T00:00:00Z"
    assert [one["name"] for one in made["packages"]] == ["adduser", "libstdc++6", "nftables"]
    for one in made["packages"]:
        assert re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", one["SPDXID"])
    (purl,) = made["packages"][2]["externalRefs"]
    assert purl["referenceLocator"] == (
        "pkg:deb/debian/nftables@1:1.1.3-1?arch=amd64&distro=debian-13"
    )
    assert "pkg:deb/debian/libstdc%2B%2B6@14.2.0-19?" in json.dumps(made)
    other = sbom.document("workload", LISTED.replace("3.152", "3.153"), "13", 1789689600)
    assert other["documentNamespace"] != made["documentNamespace"]


def test_the_program_in_the_image_runs_without_cnibench(tmp_path: Path) -> None:
    """With a dpkg-query that lists three packages."""
    fake = tmp_path / "dpkg-query"
    fake.write_text(f"#!/bin/sh\ncat <<'END'\n{LISTED}END\n")
    fake.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-I", recipe.FOLDER / "sbom.py", "agent"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "SOURCE_DATE_EPOCH": "5"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    found = json.loads(done.stdout)
    assert (found["name"], len(found["packages"])) == ("cnibench/agent", 3)
    assert found["creationInfo"]["created"] == "1970-01-01T00:00:05Z"
