"""What a CNI was installed from and runs is known by SHA-256."""

from __future__ import annotations

import json
import subprocess
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from cnibench.clusters.kubernetes.cni import chart_archives, charts, files, sources
from cnibench.clusters.kubernetes.cni.image_digests import digests
from cnibench.errors import InputError
from cnibench.model.installation import Chart, Manifest
from cnibench.model.profile import builtin


def test_the_sha256_of_a_file_and_of_a_folder_are_those_of_sha256sum(tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text("name: a\n")
    (tmp_path / "templates" / "B.yaml").write_text("b")
    (tmp_path / "templates" / "a.yaml").write_text("a")
    file = tmp_path / "Chart.yaml"
    command = "find . -type f -printf '%P\\n' | LC_ALL=C sort | xargs sha256sum | sha256sum"
    folder = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, check=True)
    assert sources.of_path(file) == sha256(b"name: a\n").hexdigest()
    assert sources.of_path(tmp_path) == folder.stdout.decode().split()[0]


def test_what_is_not_what_the_profile_names_is_refused_with_both_values() -> None:
    sources.check("x", "a" * 64, "a" * 64)
    with pytest.raises(InputError) as error:
        sources.check("https://example.org/x.yaml", "b" * 64, "a" * 64)
    assert error.value.message == (
        "https://example.org/x.yaml: it is not the file that the profile names (sha256"
        f" {'a' * 64}), its sha256 is {'b' * 64}"
    )
    assert error.value.remedy == "has it been changed there?"


def test_a_manifest_is_known_by_its_name_and_sha256(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n")
    found = files.rendered(Manifest(file="kindnet.yaml"), {"manifest": str(path)}, {})
    assert found.sources == {"manifest mine.yaml": sha256(path.read_bytes()).hexdigest()}
    assert [item["kind"] for item in found.objects] == ["ConfigMap"]


@pytest.mark.parametrize("wrong", ["a" * 63, "A" * 64, f"sha256:{'a' * 64}", "v1"])
def test_the_sha256_of_a_chart_has_64_digits(wrong: str) -> None:
    with pytest.raises(ValidationError, match="sha256"):
        Chart(name="a", repository="r", version="1", namespace="n", sha256=wrong)


def test_profiles_agree_on_the_archive_of_a_chart() -> None:
    known: dict[tuple[str, str, str], set[str]] = {}
    for profile in builtin().values():
        for step in profile.kubernetes.steps if profile.kubernetes else ():
            if chart := step.chart:
                key = (chart.repository, chart.name, chart.version)
                known.setdefault(key, set()).add(chart.sha256)
    assert all(len(found) == 1 for found in known.values())


def test_the_digests_of_a_pods_images_are_those_that_its_containers_run() -> None:
    pod = {
        "spec": {
            "initContainers": [{"name": "copy", "image": "quay.io/x/cni:v1"}],
            "containers": [
                {"name": "agent", "image": "quay.io/x/agent:v1"},
                {"name": "waits", "image": "quay.io/x/late:v1"},
            ],
        },
        "status": {
            "initContainerStatuses": [{"name": "copy", "imageID": f"sha256:{'1' * 64}"}],
            "containerStatuses": [
                {"name": "waits", "image": "quay.io/x/late:v1", "imageID": ""},
                {
                    "name": "agent",
                    "image": "docker.io/library/other-name:v1",
                    "imageID": f"docker.io/library/import-2026-01-01@sha256:{'2' * 64}",
                },
            ],
        },
    }
    assert digests(pod) == [
        ("quay.io/x/cni:v1", f"sha256:{'1' * 64}"),
        ("quay.io/x/agent:v1", f"sha256:{'2' * 64}"),
    ]
    assert digests({"spec": pod["spec"]}) == []


def test_a_chart_is_fetched_once_and_what_is_the_same_is_rendered_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By all blocks of a run; an installation asks for it twice, once for its images."""
    asked: list[str] = []

    def helm(what: str, *words: str, **_: Any) -> SimpleNamespace:
        asked.append(what)
        if what == "pull":
            Path(words[words.index("--destination") + 1], "small-1.0.0.tgz").write_bytes(b"chart")
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made"}}
        return SimpleNamespace(stdout=json.dumps(made))

    monkeypatch.setattr(charts, "_last", {})
    monkeypatch.setattr(chart_archives, "_fetched", {})
    access: Any = SimpleNamespace(helm=helm, server_version="v1.34.4")
    small = Chart(name="small", repository="https://x", version="1.0.0", namespace="default")
    for settings in ({}, {}, {"key": "other"}):
        found = charts.rendered(access, small, settings, {}, last=True)
        assert [one["metadata"]["name"] for one in found.objects] == ["made"]
        assert list(found.sources) == ["chart small 1.0.0"]
    assert asked == ["pull", "template", "template"]
