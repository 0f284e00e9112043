"""Charts from a repository, by the real helm: the archive that the profile names is rendered, no
other one.
"""

from __future__ import annotations

import dataclasses
import functools
import http.server
import io
import json
import tarfile
import tempfile
import threading
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest
from kind.parts import Parts

from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.cni import charts
from cnibench.clusters.kubernetes.cni.sources import Rendered
from cnibench.errors import ClusterError, InputError
from cnibench.model.installation import Chart

pytestmark = pytest.mark.timeout(120)
GOLDEN = Path(__file__).parent.parent / "golden" / "kubernetes_errors"
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: nobody
contexts: [{name: nobody, context: {cluster: nobody, user: nobody}}]
clusters: [{name: nobody, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: nobody, user: {}}]
"""
TEMPLATE = """
apiVersion: v1
kind: ConfigMap
metadata: {name: made}
data: {said: "{{ .Values.said }}", version: "{{ .Chart.Version }}"}
"""


def archive(version: str, template: str = TEMPLATE) -> bytes:
    """A chart of one object."""
    about = f"{{apiVersion: v2, name: small, version: {version}}}"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, text in (("Chart.yaml", about), ("templates/made.yaml", template)):
            member = tarfile.TarInfo(f"small/{name}")
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text.encode()))
    return packed.getvalue()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


@dataclasses.dataclass
class Repository:
    """Versions 1.0.0 and 1.1.0 of a chart, served on the loopback."""

    folder: Path
    url: str

    def archive(self, version: str) -> Path:
        return self.folder / f"small-{version}.tgz"

    def sha256(self, version: str) -> str:
        return sha256(self.archive(version).read_bytes()).hexdigest()

    def chart(self, digest: str) -> Chart:
        values = {"said": "${word}"}
        return Chart(
            name="small",
            repository=self.url,
            version="1.0.0",
            namespace="kube-system",
            sha256=digest,
            values=values,
        )


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    folder = tmp_path / "repository"
    folder.mkdir()
    serve = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        found = Repository(folder, f"http://127.0.0.1:{server.server_port}")
        entries = []
        for version in ("1.0.0", "1.1.0"):
            found.archive(version).write_bytes(archive(version))
            entries.append(
                {
                    "apiVersion": "v2",
                    "name": "small",
                    "version": version,
                    "urls": [found.archive(version).name],
                    "digest": found.sha256(version),
                }
            )
        index = {"apiVersion": "v1", "entries": {"small": entries}}
        (folder / "index.yaml").write_text(json.dumps(index))
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def access(kind_parts: Parts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Access:
    """Of a cluster that nobody asks; helm's and our own temporary files are the test's."""
    path = tmp_path / "config"
    path.write_text(KUBECONFIG)
    for name in ("CACHE", "CONFIG", "DATA"):
        monkeypatch.setenv(f"HELM_{name}_HOME", str(tmp_path / "helm" / name))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    found = Access(path)
    found.__dict__["server_version"] = "v1.34.4"
    return found


def render(access: Access, of: Chart, **settings: str) -> Rendered:
    return charts.rendered(access, of, settings, {"word": "hello"}, last=True)


def test_the_archive_that_the_profile_names_is_rendered(
    access: Access, repository: Repository, tmp_path: Path
) -> None:
    digest = repository.sha256("1.0.0")
    for named in (digest, ""):
        found = render(access, repository.chart(named))
        assert [item["data"] for item in found.objects] == [{"said": "hello", "version": "1.0.0"}]
        assert found.sources == {"chart small 1.0.0": digest}
    assert list((tmp_path / "temporary").iterdir()) == []


def test_another_archive_is_refused(access: Access, repository: Repository, tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        render(access, repository.chart("0" * 64))
    said = f"error: {error.value.message}\n  remedy: {error.value.remedy}\n"
    said = said.replace(repository.url, "REPOSITORY").replace(repository.sha256("1.0.0"), "SHA256")
    assert said == (GOLDEN / "other-chart.txt").read_text()
    assert list((tmp_path / "temporary").iterdir()) == []


def test_an_archive_that_was_changed_in_the_repository_is_refused(
    access: Access, repository: Repository
) -> None:
    chart = repository.chart(repository.sha256("1.0.0"))
    repository.archive("1.0.0").write_bytes(archive("1.0.0", TEMPLATE + "# of somebody else"))
    with pytest.raises(InputError, match=f"its sha256 is {repository.sha256('1.0.0')}"):
        render(access, chart)


def test_another_version_is_asked_for_and_recorded(access: Access, repository: Repository) -> None:
    found = render(access, repository.chart(repository.sha256("1.0.0")), version="1.1.0")
    assert [item["data"]["version"] for item in found.objects] == ["1.1.0"]
    assert found.sources == {"chart small 1.1.0": repository.sha256("1.1.0")}
    with pytest.raises(ClusterError, match=r"2\.0\.0"):
        render(access, repository.chart(""), version="2.0.0")


def test_an_archive_of_the_users_own_is_recorded(
    access: Access, repository: Repository, tmp_path: Path
) -> None:
    path = tmp_path / "mine.tgz"
    path.write_bytes(archive("3.0.0"))
    found = render(access, repository.chart("0" * 64), chart=str(path))
    assert [item["data"]["version"] for item in found.objects] == ["3.0.0"]
    assert found.sources == {"chart small": sha256(path.read_bytes()).hexdigest()}
