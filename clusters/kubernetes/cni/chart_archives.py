"""A chart's archive, fetched from its repository and held to the SHA-256 of the profile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from cnibench.clusters.kubernetes.api.access import Access
from cnibench.clusters.kubernetes.cni import sources
from cnibench.errors import ClusterError
from cnibench.model.installation import Chart

_FETCHING = 120.0  # s
_fetched: dict[tuple[str, str, str], bytes] = {}  # by repository, chart and version


@contextmanager
def fetched(access: Access, chart: Chart, version: str) -> Iterator[Path]:
    """The archive, while the context lasts: fetched once, so that all blocks of a run have the same
    one. A version other than the profile's has no SHA-256 to be held to.

    Raises InputError for another archive than the profile's, ClusterError (helm's own words),
    LimitError.
    """
    known = chart.repository, chart.name, version
    if known not in _fetched:
        _fetched[known] = _pulled(access, chart, version)
    with TemporaryDirectory(prefix="cnibench-chart-") as folder:
        path = Path(folder) / f"{chart.name}.tgz"
        path.write_bytes(_fetched[known])
        if chart.sha256 and version == chart.version:
            where = f"the chart {chart.name} {version} of {chart.repository}"
            sources.check(where, sources.of_path(path), chart.sha256)
        yield path


def _pulled(access: Access, chart: Chart, version: str) -> bytes:
    with TemporaryDirectory(prefix="cnibench-chart-") as folder:
        argv = ["pull", chart.name, "--repo", chart.repository, "--version", version]
        access.helm(*argv, "--destination", folder, timeout=_FETCHING)
        found = list(Path(folder).glob("*.tgz"))
        if len(found) != 1:
            raise ClusterError(
                f"helm pull {chart.name} left {len(found)} archives",
                "fetch it elsewhere and name it with --set chart=FILE.tgz",
            )
        return found[0].read_bytes()
